"""`scalewright calibrate`: which constants do my own measurements give a system or a device?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from scalewright.cli.verb import Verbs
    from scalewright.errors import InvalidError

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
        help="write constants that predict their rows badly, or no better than before",
    )
    parser.add_argument(
        "--afresh",
        action="store_true",
        help="of kernels: begin at values of no device, though those of this one were measured",
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
    if options.what in ("nccl", "step"):
        _refuse(options, ("afresh",), "kernels")
    if options.out:
        _check_out(options.out)
        _check_sources(options)
    kinds = {"nccl": _collectives, "step": _steps}
    return kinds.get(options.what, _kernels)(options)


def _refuse(options: argparse.Namespace, names: tuple[str, ...], kind: str) -> None:
    """Refuse options that only another kind of measurements has."""
    from scalewright.errors import InvalidError

    for name in names:
        if getattr(options, name):
            message = f"--{name.replace('_', '-')}: got one; allowed: only of {kind}"
            raise InvalidError(message)


def _check_sources(options: argparse.Namespace) -> None:
    """Refuse to write over entries from which the fit starts: they would stand on themselves."""
    from pathlib import Path

    from scalewright.errors import InvalidError

    out = Path(options.out).resolve()
    if any(Path(place).resolve() == out for place in _own_entries(options)):
        message = f"--out: got {options.out!r:.60}, from which the fit starts; allowed: another"
        raise InvalidError(message)


def _check_out(path: str, entry: tuple[str, str] | None = None) -> None:
    """Refuse a file that cannot be written, or that holds something else than catalog entries.

    Args:
        path: The file.
        entry: Kind and name of the entry that it is to change or to add; any where none is given.
    """
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
    if entry is None and {"kind", "base"} <= held.keys():
        return
    if entry is not None and entry == (held.get("kind"), held.get("base", held.get("name"))):
        return
    of = "" if entry is None else f" of {entry[1]}"
    message = (
        f"--out: {path}: it is there and no override{of}; allowed: a new file, or one of these"
    )
    raise InvalidError(message)


def _own_entries(options: argparse.Namespace) -> list[str]:
    """List a user's own entries of the catalog, from which a fit starts, in order."""
    system: str | None = options.system
    own = [system] if system is not None and system.casefold().endswith(".toml") else []
    return list(dict.fromkeys([*options.catalog, *own]))


def _catalogs(options: argparse.Namespace, written: list[str]) -> str:
    """Return the options by which other commands take what was written."""
    return " ".join(f"--catalog {place}" for place in [*_own_entries(options), *written])


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

        changed = {"overridden_constants": list(machines.overridden)}
        show_json({**stamp(options.catalog), **changed, **answer, "written": written})
        return code
    from scalewright.report import console, show_calibration, show_overridden

    screen = console()
    show_calibration(answer, screen)
    show_overridden(screen, machines)
    screen.print()
    if written:
        places = _catalogs(options, [written])
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
    from scalewright.errors import InvalidError
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
        try:
            found = fit(rows, device, progress, afresh=options.afresh, force=options.force)
        except InvalidError as error:
            raise _with_lines(error, wrong) from error
    worth_it = bool(found.override) and (found.sound or options.force)
    written = options.out if options.out and worth_it else None
    if written:
        Path(written).write_text(found.override, encoding="utf-8")
    answer = found.to_dict()
    code = 1 if options.out and not written else 0
    if options.json:
        from scalewright.cli.output import show_json

        show_json({**stamp(options.catalog), **answer, "left_out": wrong, "written": written})
        return code
    _show_kernels(options, answer, wrong, written)
    return code


def _show_kernels(
    options: argparse.Namespace, answer: dict[str, Any], wrong: list[str], written: str | None
) -> None:
    from scalewright.calibration import grouped
    from scalewright.report import console, show_kernel_calibration

    screen = console()
    show_kernel_calibration(answer, grouped(wrong), screen)
    screen.print()
    for family in answer["families"]:
        kept = [line["name"] for line in family["constants"] if line["status"] == "kept"]
        if kept:
            screen.print(f"kept, as these rows give no reason to change them: {', '.join(kept)}")
        if family["worse"] and not family["taken"]:
            screen.print(f"{family['table']} keeps the catalog's constants; --force takes the fit")
    if not answer["sound"]:
        screen.print(
            "rows that are predicted are off by half and more: is the unit, or the device,"
        )
        screen.print("another?")
    if written:
        screen.print(f"written: {written}; take it with {_catalogs(options, [written])}")
    elif not answer["override"]:
        screen.print("no constant changes: nothing is written")
    elif not answer["sound"] and options.out:
        screen.print("nothing is written; --force writes the constants all the same")
    elif answer["sound"]:
        screen.print("--out FILE.toml writes the constants as an entry for --catalog")


def _with_lines(error: InvalidError, wrong: list[str]) -> InvalidError:
    """Return a refusal that names the lines which were left out, too."""
    from scalewright.calibration import grouped
    from scalewright.errors import InvalidError

    if not wrong:
        return error
    return InvalidError(f"{error}; left out: {'; '.join(grouped(wrong)[:_LINES_NAMED])}")


def _steps(options: argparse.Namespace) -> int:
    from scalewright.calibration import calibrate_steps, step_entries, timed_steps
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
    if options.out:
        for entry in step_entries(runs, options.fit):
            if entry[0] != "device":
                _check_out(_place(options.out, ".".join(entry)), entry)
    with progress_bar("fitting") as progress:
        try:
            found = calibrate_steps(runs, only=options.fit, progress=progress)
        except InvalidError as error:
            raise _with_lines(error, wrong) from error
    sound = found.sound or options.force
    written = _written(options.out, found.overrides) if options.out and sound else []
    answer = found.to_dict()
    code = 0 if sound or not options.out else 1
    if options.json:
        from scalewright.cli.output import show_json

        show_json({**stamp(options.catalog), **answer, "left_out": wrong, "written": written})
        return code
    _show_steps(options, answer, wrong, written)
    return code


def _show_steps(
    options: argparse.Namespace, answer: dict[str, Any], wrong: list[str], written: list[str]
) -> None:
    from rich.text import Text

    from scalewright.calibration import grouped
    from scalewright.report import console, show_step_calibration

    screen = console()
    show_step_calibration(answer, grouped(wrong), screen)
    for note in grouped(answer["notes"]):
        screen.print(Text(f"noted: {note}"))
    screen.print()
    if answer["far"]:
        named = "; ".join(answer["far"][:_LINES_NAMED])
        count = f"{len(answer['far'])} lines: {named}"
        screen.print(Text(f"held-out runs are off by a factor of 3 and more, of {count}"))
        screen.print("is their unit another?")
    if not answer["overrides"]:
        screen.print("no constant was fitted: there is nothing to write")
    elif not answer["better"]:
        screen.print("held-out runs are predicted no better than before: keep the constants")
    if answer["overrides"] and not answer["sound"] and not options.force:
        screen.print("nothing is written; --force writes them all the same")
    if written:
        screen.print(f"written; take it with {_catalogs(options, written)}")
        _show_profile(answer, screen)
    elif answer["sound"]:
        screen.print("--out FILE.toml writes the constants as entries for --catalog")


def _show_profile(answer: dict[str, Any], screen: Console) -> None:
    """Say how a profile of software is named that begins with these runs."""
    if (name := answer["new_profile"]) is not None:
        screen.print(f"and with --software {name} for jobs; rows say it in a column")
        screen.print(f"software_profile, or the host's time that was fitted does not count: {name}")


def _place(out: str, entry: str) -> str:
    """Return the file of an entry: the device's is as it is named, others lie beside it."""
    from pathlib import Path

    return out if entry == "device" else str(Path(out).with_suffix(f".{entry}.toml"))


def _written(out: str, overrides: dict[str, str]) -> list[str]:
    """Write the overrides, each to its file."""
    from pathlib import Path

    written = {_place(out, entry): text for entry, text in overrides.items()}
    for place, text in written.items():
        Path(place).write_text(text, encoding="utf-8")
    return list(written)
