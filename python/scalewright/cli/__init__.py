"""The command line: what a person types, and what a terminal shows."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING, cast

from scalewright.cli import (
    calibrate,
    catalog,
    codesign,
    collective,
    compare,
    controller,
    estimate,
    offload,
    place,
    plan,
    plan_unlike,
    rematerialise,
    reproduce,
    schedule,
    sensitivity,
    serve_blocks,
    why_not,
)
from scalewright.cli.parser import Parser

if TYPE_CHECKING:
    import argparse

OK, BAD_INPUT, INFEASIBLE, INTERRUPTED = 0, 2, 3, plan.INTERRUPTED
_VERBS = (
    plan,
    plan_unlike,
    estimate,
    place,
    compare,
    why_not,
    sensitivity,
    codesign,
    collective,
    schedule,
    rematerialise,
    controller,
    offload,
    serve_blocks,
    catalog,
    reproduce,
    calibrate,
)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done; 1: what was found is not worth writing; 2: bad input, said on standard error; 3: no
    plan fits, or the given one does not; 130: Ctrl-C ended it, perhaps with an answer that says so.
    """
    parser, verbs = _parser()
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        verbs.get(options.verb, parser).refuse_unknown(unknown)
    if options.version:
        from scalewright._engine import version

        print(version())
        return OK
    if options.run is None:
        parser.print_help()
        return OK
    return _guarded(options)


def _parser() -> tuple[Parser, dict[str, Parser]]:
    """Return the parser of the command line, and those of the verbs by name."""
    parser = Parser(
        prog="scalewright",
        description="Plans AI training clusters: time, memory, energy and price of a job.",
        epilog="`scalewright VERB --help` tells the options of a verb.",
    )
    parser.add_argument("--version", action="store_true", help="print the engine's version")
    parser.set_defaults(run=None)
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", dest="verb")
    for verb in _VERBS:
        verb.add(verbs)
    return parser, dict(verbs.choices)


def _guarded(options: argparse.Namespace) -> int:
    """Run a verb; what the user can mend is said in a line, never as a traceback."""
    from scalewright.cli.refusing import in_options
    from scalewright.errors import CancelledError, ScalewrightError

    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] -- so under `>&-`
        return _refused("standard output: got a closed one; allowed: a terminal, file or pipe")
    _forgive_letters()
    try:
        code = options.run(options)
        sys.stdout.flush()
    except CancelledError as stopped:
        print(f"scalewright: {stopped}", file=sys.stderr)
        return INTERRUPTED
    except ScalewrightError as error:
        return _refused(in_options(str(error), options))
    except BrokenPipeError:
        # the reader has gone, as in `| head`; Python must not try to flush again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:
        return _refused(f"{error.filename or 'output'}: {error.strerror or error}")
    except KeyboardInterrupt:
        print("scalewright: stopped", file=sys.stderr)
        return INTERRUPTED
    return code


def _forgive_letters() -> None:
    """Let a letter that the terminal lacks stop no answer."""
    screen: object = sys.stdout
    if isinstance(screen, TextIOWrapper):
        cast("TextIOWrapper", screen).reconfigure(errors="backslashreplace")


def _refused(message: str) -> int:
    text = f"scalewright: {message}".encode("utf-8", "backslashreplace").decode("utf-8")
    print(text, file=sys.stderr)
    return BAD_INPUT
