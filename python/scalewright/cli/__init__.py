"""The command line: what a person types, and what a terminal shows."""

from __future__ import annotations

import argparse


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(prog="scalewright", description="Plans AI training clusters.")
    parser.add_argument("--version", action="store_true", help="print the engine's version")
    options = parser.parse_args(arguments)
    if options.version:
        from scalewright._engine import version

        print(version())
        return 0
    parser.print_help()
    return 0
