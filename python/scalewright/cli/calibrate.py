"""`scalewright calibrate`: which constants do my own measurements give a system or a device?"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from scalewright.cli.verb import Verbs

_KINDS = {
    "gemm": ("gemm",),
    "attention": ("attention_prefill", "attention_decode"),
    "moe": ("moe",),
}


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "calibrate", help="fit the constants of a fabric or a device to your own measurements"
    )
    parser.add_argument(
        "what",
        choices=("nccl", "gemm", "attention", "moe"),
        help="what was measured: collectives by nccl-tests, matrix products, attention of prompts "
        "and of new tokens, or experts of a mixture",
    )
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="what nccl-tests or rccl-tests printed, or CSV of timed kernels",
    )
    parser.add_argument(
        "--system",
        metavar="NAME|FILE",
        help="catalog name or TOML file; of kernels also a device, where the rows do not say it",
    )
    parser.add_argument(
        "--level", metavar="NAME", help="level to fit (the outermost that the rows cross)"
    )
    parser.add_argument(
        "--ranks", type=int, metavar="N", help="ranks of logs that do not list them"
    )
    parser.add_argument(
        "--collective", metavar="NAME", help="collective of logs that do not name it"
    )
    parser.add_argument(
        "--only", metavar="TEXT", help="only CSV rows whose system contains this text"
    )
    parser.add_argument(
        "--in-place", action="store_true", help="fit the times in place, not those out of place"
    )
    parser.add_argument("--out", metavar="FILE.toml", help="write them as an entry for --catalog")
    parser.add_argument(
        "--catalog",
        action="append",
        default=[],
        metavar="DIR|FILE",
        help="your own entries to start from; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read the files, fit, write the override and show what was found."""
    return _collectives(options) if options.what == "nccl" else _kernels(options)


def _collectives(options: argparse.Namespace) -> int:
    from pathlib import Path

    from scalewright.calibration import calibrate, read_files
    from scalewright.cli.output import progress_bar
    from scalewright.config import need_count
    from scalewright.errors import InvalidError
    from scalewright.planning import stamp, system

    if options.system is None:
        message = "--system: got nothing; allowed: catalog name or TOML file of a system"
        raise InvalidError(message)
    if options.ranks is not None:
        need_count("ranks", options.ranks, least=2)
    machines = system(options.system, 1, overrides=options.catalog)
    rows = read_files(
        options.files, ranks=options.ranks, collective=options.collective, only=options.only
    )
    with progress_bar("fitting") as progress:
        found = calibrate(
            rows, machines, options.level, in_place=options.in_place, progress=progress
        )
    if options.out:
        Path(options.out).write_text(found.override, encoding="utf-8")
    answer = found.to_dict()
    if options.json:
        from scalewright.cli.output import show_json

        show_json({**stamp(options.catalog), **answer})
        return 0
    from scalewright.report import console, show_calibration

    screen = console()
    show_calibration(answer, screen)
    screen.print()
    if options.out:
        own = [options.system] if options.system.endswith(".toml") else []
        places = " ".join(f"--catalog {place}" for place in [*options.catalog, *own, options.out])
        screen.print(f"written: {options.out}; take it with --system {machines.name} {places}")
    else:
        screen.print("--out FILE.toml writes the constants as an entry for --catalog")
    return 0


def _kernels(options: argparse.Namespace) -> int:
    from pathlib import Path

    from scalewright.calibration import calibrate_products, calibrate_serving, timed_kernels
    from scalewright.cli.output import progress_bar
    from scalewright.errors import InvalidError
    from scalewright.planning import stamp

    for name in ("level", "ranks", "collective", "in_place"):
        if getattr(options, name):
            message = f"--{name.replace('_', '-')}: got one; allowed: only of collectives"
            raise InvalidError(message)
    rows, device, wrong = timed_kernels(
        options.files,
        options.system,
        kinds=_KINDS[options.what],
        only=options.only,
        overrides=options.catalog,
    )
    fit = calibrate_products if options.what == "gemm" else calibrate_serving
    with progress_bar("fitting") as progress:
        found = fit(rows, device, progress)
    if options.out:
        Path(options.out).write_text(found.override, encoding="utf-8")
    answer = found.to_dict()
    if options.json:
        from scalewright.cli.output import show_json

        show_json({**stamp(options.catalog), **answer, "left_out": wrong})
        return 0
    from scalewright.report import console, show_kernel_calibration

    screen = console()
    show_kernel_calibration(answer, wrong, screen)
    screen.print()
    if options.out:
        screen.print(f"written: {options.out}; take it with --catalog {options.out}")
    else:
        screen.print("--out FILE.toml writes the constants as an entry for --catalog")
    return 0
