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
        action="append",
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
        help="your own entries of the catalog",
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print the held-out errors of kernels as Markdown"
    )
    parser.add_argument(
        "--picture", metavar="FILE", help="draw predicted over measured steps to .png, .svg or .pdf"
    )
    parser.add_argument(
        "--page", metavar="FILE.html", help="write a page with every row, its assumptions and terms"
    )
    parser.add_argument(
        "--ablation",
        action="store_true",
        help="price runs again without each term of the cost model, instead of comparing",
    )
    parser.add_argument(
        "--write", metavar="FILE.md", help="write what docs/evidence.md tells, of these rows"
    )
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Reproduce the rows and show them."""
    from scalewright.reproductions.collectives import holds_collectives
    from scalewright.reproductions.kernels import holds_kernels

    others = {
        _SCHEDULES: _claims,
        _PLACEMENT: _claims,
        _CONTROLLERS: _controllers,
        _COLLECTIVES: _collectives,
        _KERNELS: _kernels,
    }
    answer = _training
    options.rows = _only_file(options.rows or [])
    if options.rows is None:
        answer = others.get(options.pattern or "", _training)
    elif holds_collectives(options.rows):
        answer = _collectives
    elif options.pattern == _KERNELS or holds_kernels(options.rows):
        answer = _kernels
    if answer is not _kernels:
        _refuse_kernel_options(options)
    if answer is not _training:
        _refuse_training_options(options)
    return answer(options)


def _only_file(paths: list[str]) -> str | None:
    """Return the file of rows, if there is one.

    Raises:
        InvalidError: There are two, or it can be read but once: its columns are looked at first.
    """
    from pathlib import Path

    from scalewright.errors import InvalidError

    if not paths:
        return None
    if len(paths) > 1:
        named = ", ".join(f"'{path}'" for path in paths)
        message = f"--rows: got {len(paths)} files, {named}; allowed: one"
        raise InvalidError(message)
    (path,) = paths
    if Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir()):
        message = f"--rows: got '{path}', which is no regular file; allowed: a CSV file"
        raise InvalidError(message)
    return path


def _refuse_kernel_options(options: argparse.Namespace) -> None:
    """Refuse what only kernels have."""
    from scalewright.errors import InvalidError

    if options.markdown:
        message = "--markdown: got it; allowed: only of kernels"
        raise InvalidError(message)
    if options.within is not None:
        message = f"pattern: got a second one, '{options.within}'; allowed: only after 'kernels'"
        raise InvalidError(message)


def _refuse_training_options(options: argparse.Namespace) -> None:
    """Refuse what only results of training runs can be turned into."""
    from scalewright.cli.refusing import refuse

    for name in ("picture", "page", "write", "ablation"):
        given = getattr(options, name)
        if given is not None and given is not False:
            refuse(name, given, "only where rows are training runs")


def _training(options: argparse.Namespace) -> int:
    from pathlib import Path

    from scalewright.cli.output import progress_bar
    from scalewright.errors import InvalidError
    from scalewright.reproductions import run as reproduced
    from scalewright.reproductions.evidence import check_evidence, write_page_of
    from scalewright.reproductions.page import check_page, write_page
    from scalewright.reproductions.parity import check_picture, draw_parity

    if options.system is not None:
        allowed = "only where rows are collectives or kernels"
        message = f"--system: got '{options.system}'; allowed: {allowed}"
        if options.rows is not None:
            # most often a heading that none of their kinds has
            message += f", of which {Path(options.rows).name} lacks columns"
        raise InvalidError(message)
    if options.ablation:
        return _ablation(options)
    checks = (check_picture, check_page, check_evidence)
    for path, check in zip((options.picture, options.page, options.write), checks, strict=True):
        if path is not None:
            check(path)
    with progress_bar("reproducing rows") as progress:
        detail = options.page is not None
        result = reproduced(
            options.pattern, options.rows, progress, detail=detail, overrides=options.catalog
        )
    if options.picture is not None:
        draw_parity(result["rows"], options.picture)
    if options.page is not None:
        write_page(result, options.page)
    if options.write is not None:
        write_page_of(result["rows"], options.write)
    return _shown(result, options)


def _ablation(options: argparse.Namespace) -> int:
    from scalewright.cli.output import progress_bar, show_json
    from scalewright.errors import InvalidError
    from scalewright.planning import stamp
    from scalewright.report import console
    from scalewright.reproductions.ablation import ablation
    from scalewright.reproductions.showing import show_ablation

    asked = {"--picture": options.picture, "--page": options.page, "--write": options.write}
    for name, given in asked.items():
        if given is not None:
            message = f"{name}: got '{given}'; allowed: only without --ablation"
            raise InvalidError(message)
    with progress_bar("pricing without terms") as progress:
        found = ablation(options.pattern, options.rows, progress, overrides=options.catalog)
    if options.json:
        show_json({**stamp(), **found})
    else:
        show_ablation(found, console())
    return 0


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
        return _status(result, options)
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
        return _status(result, options)
    from scalewright.report import console
    from scalewright.reproductions import collectives, kernels, placement, schedules, show

    shows = {
        "by_kernel": kernels.show,
        "by_part": collectives.show,
        "by_table": schedules.show,
        "by_placement": placement.show,
    }
    chosen = next((shows[key] for key in shows if key in result["summary"]), None)
    if chosen is None:
        # of rows of one's own each line that is wrong counts
        show(result, console(), skipped=options.rows is not None)
    else:
        chosen(result, console())
    return _status(result, options)


def _status(result: dict[str, Any], options: argparse.Namespace) -> int:
    """Return 2, wrong input, where a file of one's own holds no row that could be priced."""
    skipped = all(row["reason"] is not None for row in result["rows"])
    return 2 if options.rows is not None and skipped else 0
