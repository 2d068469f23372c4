"""`scalewright reproduce`: how near do predictions come to published results?"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from scalewright.cli.verb import Verbs


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = verbs.add_parser("reproduce", help="compare predictions with published results")
    parser.add_argument(
        "pattern", nargs="?", metavar="PATTERN", help="only papers or tables that contain this"
    )
    parser.add_argument("--rows", metavar="FILE.csv", help="published rows of your own")
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Reproduce the rows and show them."""
    from scalewright.cli.output import progress_bar
    from scalewright.reproductions import run as reproduced

    with progress_bar("reproducing rows") as progress:
        result = reproduced(options.pattern, options.rows, progress)
    if options.json:
        from scalewright.cli.output import show_json
        from scalewright.planning import stamp

        show_json({**stamp(), **result})
    else:
        from scalewright.report import console
        from scalewright.reproductions import show

        show(result, console())
    return 0
