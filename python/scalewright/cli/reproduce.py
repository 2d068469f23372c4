"""`scalewright reproduce`: how near do predictions come to published results?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from scalewright.cli.verb import Verbs

_COLLECTIVES = "collectives"
_SCHEDULES = "schedules"
_CONTROLLERS = "controllers"
_PLACEMENT = "placement"
_KERNELS = "kernels"


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = verbs.add_parser("reproduce", help="compare predictions with published results")
    parser.add_argument(
        "pattern",
        nargs="?",
        metavar="PATTERN",
        help="only papers or tables that contain this; 'collectives': measured collectives; "
        "'schedules': results of pipeline schedules; "
        "'controllers': who dispatches computations; "
        "'placement': data over tiers of memory; "
        "'kernels': timed kernels",
    )
    parser.add_argument(
        "within",
        nargs="?",
        metavar="PATTERN",
        help="only kernels whose kind, device or format has it",
    )
    parser.add_argument(
        "--rows",
        metavar="FILE.csv",
        help="results of your own: training runs, collectives or kernels",
    )
    parser.add_argument(
        "--system",
        metavar="NAME",
        help="system (or device) of all rows, where rows are collectives or kernels",
    )
    parser.add_argument(
        "--catalog",
        action="append",
        default=[],
        metavar="DIR|FILE",
        help="your own entries, where rows are collectives or kernels",
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print the held-out errors of kernels as Markdown"
    )
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Reproduce the rows and show them."""
    from scalewright.reproductions.collectives import holds_collectives
    from scalewright.reproductions.kernels import holds_kernels

    if options.pattern == _KERNELS or (options.rows is not None and holds_kernels(options.rows)):
        return _kernels(options)
    if options.markdown or options.within is not None:
        from scalewright.errors import InvalidError

        if options.markdown:
            message = "--markdown: got it; allowed: only of kernels"
            raise InvalidError(message)
        message = f"pattern: got a second one, '{options.within}'; allowed: only after 'kernels'"
        raise InvalidError(message)
    if options.rows is None and options.pattern in {_SCHEDULES, _PLACEMENT}:
        return _claims(options)
    if options.rows is None and options.pattern == _CONTROLLERS:
        return _controllers(options)
    if options.rows is None:
        collectives = options.pattern == _COLLECTIVES
    else:
        collectives = holds_collectives(options.rows)
    if collectives:
        return _collectives(options)
    return _training(options)


def _training(options: argparse.Namespace) -> int:
    from scalewright.cli.output import progress_bar
    from scalewright.errors import InvalidError
    from scalewright.reproductions import run as reproduced

    if options.system is not None:
        message = f"--system: got '{options.system}'; allowed: only where rows are collectives"
        raise InvalidError(message)
    with progress_bar("reproducing rows") as progress:
        result = reproduced(options.pattern, options.rows, progress)
    return _shown(result, options)


def _collectives(options: argparse.Namespace) -> int:
    from scalewright.cli.output import progress_bar
    from scalewright.reproductions.collectives import run as reproduced

    with progress_bar("reproducing collectives") as progress:
        result = reproduced(
            options.rows, options.system, overrides=options.catalog, progress=progress
        )
    return _shown(result, options)


def _kernels(options: argparse.Namespace) -> int:
    from scalewright.cli.output import progress_bar
    from scalewright.reproductions.kernels import markdown
    from scalewright.reproductions.kernels import run as reproduced

    pattern = options.within if options.pattern == _KERNELS else options.pattern
    with progress_bar("reproducing kernels") as progress:
        result = reproduced(
            pattern, options.rows, options.system, overrides=options.catalog, progress=progress
        )
    if options.markdown:
        print(markdown(result))
        return 0
    return _shown(result, options)


def _claims(options: argparse.Namespace) -> int:
    """Reproduce what papers say of schedules or of placed data."""
    from scalewright.cli.output import progress_bar
    from scalewright.errors import InvalidError
    from scalewright.reproductions import placement, schedules

    for name, given in (("--system", options.system), ("--catalog", options.catalog)):
        if given:
            message = f"{name}: got '{given}'; allowed: only where rows are collectives"
            raise InvalidError(message)
    claims = schedules if options.pattern == _SCHEDULES else placement
    with progress_bar(f"reproducing {options.pattern}") as progress:
        result = claims.run(progress)
    return _shown(result, options)


def _controllers(options: argparse.Namespace) -> int:
    from scalewright.errors import InvalidError
    from scalewright.report import console
    from scalewright.reproductions import controllers

    if options.system is not None or options.catalog:
        field = "--system" if options.system is not None else "--catalog"
        message = f"{field}: got one; allowed: only where rows are collectives"
        raise InvalidError(message)
    result = controllers.run()
    if options.json:
        from scalewright.cli.output import show_json
        from scalewright.planning import stamp

        show_json({**stamp(), **result})
    else:
        controllers.show(result, console())
    return 0


def _shown(result: dict[str, Any], options: argparse.Namespace) -> int:
    if options.json:
        from scalewright.cli.output import show_json
        from scalewright.planning import stamp

        show_json({**stamp(), **result})
        return 0
    from scalewright.report import console
    from scalewright.reproductions import collectives, kernels, placement, schedules, show

    shows = {
        "by_kernel": kernels.show,
        "by_part": collectives.show,
        "by_table": schedules.show,
        "by_placement": placement.show,
    }
    chosen = next((shows[key] for key in shows if key in result["summary"]), show)
    chosen(result, console())
    return 0
