"""`scalewright calibrate`: which constants do my own measurements give a system or a device?"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from scalewright.cli.verb import Verbs

_LINES_NAMED = 5
_KINDS = {
    "gemm": ("gemm",),
    "attention": (
        "attention_prefill",
        "attention_decode",
        "attention_forward",
        "attention_backward",
    ),
    "moe": ("moe",),
}


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "calibrate", help="fit the constants of a fabric or a device to your own measurements"
    )
    parser.add_argument(
        "what",
        choices=("nccl", "gemm", "attention", "moe", "step"),
        help="what was measured: collectives by nccl-tests, matrix products, attention of prompts, "
        "of new tokens and of training, experts of a mixture, or whole training steps",
    )
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="what nccl-tests or rccl-tests printed, or CSV of timed kernels or training runs",
    )
    parser.add_argument(
        "--system",
        metavar="NAME|FILE",
        help="catalog name or TOML file; of kernels and steps also the device of all rows, "
        "whatever they say",
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
    parser.add_argument(
        "--software", metavar="NAME", help="software profile of training runs that say none"
    )
    parser.add_argument(
        "--fit",
        action="append",
        default=[],
        metavar="NAME",
        help="of steps: only this constant, or those whose names begin so; may be repeated",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="write constants that predict their rows badly, or steps no better than before",
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
    if options.what != "step":
        _refuse(options, ("software", "fit"), "steps")
    if options.what != "nccl":
        _refuse(options, ("level", "ranks", "collective", "in_place"), "collectives")
    if options.out:
        _check_out(options.out)
    kinds = {"nccl": _collectives, "step": _steps}
    return kinds.get(options.what, _kernels)(options)


def _refuse(options: argparse.Namespace, names: tuple[str, ...], kind: str) -> None:
    """Refuse options that only another kind of measurements has."""
    from scalewright.errors import InvalidError

    for name in names:
        if getattr(options, name):
            message = f"--{name.replace('_', '-')}: got one; allowed: only of {kind}"
            raise InvalidError(message)


def _check_out(path: str) -> None:
    """Refuse a file that cannot be written, or that holds something else than catalog entries."""
    import tomllib
    from pathlib import Path

    from scalewright.errors import InvalidError
    from scalewright.reproductions.target import check_target

    check_target("--out", path, (".toml",))
    if not Path(path).exists():
        return
    if not Path(path).is_file():
        message = f"--out: got '{path}', which is no file; allowed: a file ending in .toml"
        raise InvalidError(message)
    try:
        held = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        held = {}
    if not {"kind", "base"} <= held.keys():
        message = (
            f"--out: {path}: it is there and no override; allowed: a new file, or one of these"
        )
        raise InvalidError(message)


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
    written = options.out if options.out and (found.sound or options.force) else None
    if written:
        Path(written).write_text(found.override, encoding="utf-8")
    answer = found.to_dict()
    code = 1 if options.out and not written else 0
    if options.json:
        from scalewright.cli.output import show_json

        show_json({**stamp(options.catalog), **answer, "written": written})
        return code
    from scalewright.report import console, show_calibration

    screen = console()
    show_calibration(answer, screen)
    screen.print()
    if written:
        own = [options.system] if options.system.endswith(".toml") else []
        places = " ".join(f"--catalog {place}" for place in [*options.catalog, *own, options.out])
        screen.print(f"written: {options.out}; take it with --system {machines.name} {places}")
    elif options.out:
        why = "held-out rows, or the fitted ones, are too far off"
        screen.print(f"nothing is written: {why}; --force writes the constants all the same")
    else:
        screen.print("--out FILE.toml writes the constants as an entry for --catalog")
    return code


def _kernels(options: argparse.Namespace) -> int:
    from pathlib import Path

    from scalewright.calibration import calibrate_products, calibrate_serving, timed_kernels
    from scalewright.cli.output import progress_bar
    from scalewright.planning import stamp

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
    written = options.out if options.out and (found.sound or options.force) else None
    if written:
        Path(written).write_text(found.override, encoding="utf-8")
    answer = found.to_dict()
    code = 1 if options.out and not written else 0
    if options.json:
        from scalewright.cli.output import show_json

        show_json({**stamp(options.catalog), **answer, "left_out": wrong, "written": written})
        return code
    from scalewright.report import console, show_kernel_calibration

    screen = console()
    show_kernel_calibration(answer, wrong, screen)
    screen.print()
    if not found.sound:
        screen.print("held-out rows are off by half and more: is the unit, or the device, another?")
        if options.out and not options.force:
            screen.print("nothing is written; --force writes the constants all the same")
    if written:
        screen.print(f"written: {written}; take it with --catalog {written}")
    elif found.sound:
        screen.print("--out FILE.toml writes the constants as an entry for --catalog")
    return code


def _steps(options: argparse.Namespace) -> int:
    from scalewright.calibration import calibrate_steps, timed_steps
    from scalewright.cli.output import progress_bar
    from scalewright.errors import InvalidError
    from scalewright.planning import stamp

    runs, wrong = timed_steps(
        options.files,
        options.system,
        only=options.only,
        software=options.software,
        overrides=options.catalog,
    )
    with progress_bar("fitting") as progress:
        try:
            found = calibrate_steps(runs, only=options.fit, progress=progress)
        except InvalidError as error:
            if not wrong:
                raise
            message = f"{error}; left out: {'; '.join(wrong[:_LINES_NAMED])}"
            raise InvalidError(message) from error
    sound = found.better or options.force
    written = _written(options.out, found.overrides) if options.out and sound else []
    answer = found.to_dict()
    code = 0 if sound or not options.out else 1
    if options.json:
        from scalewright.cli.output import show_json

        show_json({**stamp(options.catalog), **answer, "left_out": wrong, "written": written})
        return code
    from scalewright.report import console, show_step_calibration

    screen = console()
    show_step_calibration(answer, wrong, screen)
    screen.print()
    if not found.overrides:
        screen.print("no constant was fitted: there is nothing to write")
    elif not found.better:
        screen.print("held-out runs are predicted no better than before: keep the constants")
        if not options.force:
            screen.print("nothing is written; --force writes them all the same")
    if written:
        places = " ".join(f"--catalog {place}" for place in written)
        screen.print(f"written; take it with {places}")
    elif sound and found.overrides:
        screen.print("--out FILE.toml writes the constants as entries for --catalog")
    return code


def _written(out: str, overrides: dict[str, str]) -> list[str]:
    """Write the overrides: the device's as it is named, the others beside it."""
    from pathlib import Path

    first = Path(out)
    written: list[str] = []
    for kind, text in overrides.items():
        place = first if kind == "device" else first.with_suffix(f".{kind}.toml")
        place.write_text(text, encoding="utf-8")
        written.append(str(place))
    return written
