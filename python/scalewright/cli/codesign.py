"""`scalewright codesign`: which machines suit a job best, within a budget?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.cli.job_options import add_job_options, job_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from scalewright.cli.verb import Verbs

_OBJECTIVES = ("time", "memory", "energy", "dollars", "devices")


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "codesign", help="find the best machines for a job on a grid of hardware"
    )
    add_job_options(parser, runs=False)
    grid = parser.add_argument_group("grid")
    grid.add_argument("--counts", metavar="N,N", help="device counts to try (that of --devices)")
    grid.add_argument("--systems", metavar="NAME,NAME", help="other systems to try")
    grid.add_argument(
        "--chips", metavar="NAME,NAME", help="devices to try in the place of the system's own"
    )
    grid.add_argument(
        "--vary",
        action="extend",
        nargs="+",
        default=[],
        metavar="CONSTANT=V,V",
        help="factors (1.5) or values (120GiB; of a bandwidth: as sustained) of a constant "
        "(docs/robustness.md); @2000 behind one is what a device then costs more, in dollars, "
        "@x1.2 a factor on a node's price",
    )
    grid.add_argument(
        "--budget",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME=LIMIT",
        help="most capital (20MUSD), watts (1MW), mm2 or devices of the machines",
    )
    search = parser.add_argument_group("search")
    search.add_argument("--objective", choices=_OBJECTIVES, default="time", help="least of (time)")
    search.add_argument("--top", type=int, default=5, metavar="K", help="variants to show (5)")
    search.add_argument(
        "--front", metavar="NAME,NAME", help="what the front trades, as capital,time"
    )
    search.add_argument(
        "--bounds",
        action="store_true",
        help="leave variants unsearched that cannot be among the best; there is then no front",
    )
    search.add_argument(
        "--fix",
        action="extend",
        nargs="+",
        default=[],
        metavar="FIELD=V1,V2",
        help="values that a plan field may take, as tensor=8",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print JSON for machines")
    output.add_argument("--picture", metavar="FILE", help="draw to FILE.svg, .pdf or .png")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Search the grid, show what was found, and return the exit code."""
    from scalewright.cli.output import progress_bar, show_json
    from scalewright.config import pinned_fields
    from scalewright.planning import codesign_job

    if options.picture:
        from scalewright.report.timeline import check_picture

        check_picture(options.picture)
    grid: dict[str, object] = {
        "devices": _counts(options.counts),
        "systems": _parts(options.systems),
        "chips": _parts(options.chips),
        "constants": _constants(options.vary),
    }
    front = _parts(options.front)
    asked: dict[str, object] = {
        "budget": _budget(options.budget),
        "objective": options.objective,
        "top": options.top,
        "front": front,
        "method": "bounds" if options.bounds else "exhaustive",
    }
    fix = pinned_fields(options.fix)
    with progress_bar("searching variants") as progress:
        found = codesign_job(job_of(options), grid, asked, fix, progress)
    if options.picture:
        from scalewright.report.codesign_picture import draw_codesign

        across, up = (front[0], front[1]) if len(front) > 1 else (None, options.objective)
        draw_codesign(found, options.picture, measure=up, against=across)
    if options.json:
        show_json(found.to_dict())
    else:
        from scalewright.report import console, show_codesign

        show_codesign(found, console())
    return 0 if found.feasible else 3


def _parts(text: str | None) -> list[str]:
    return [] if text is None else [part.strip() for part in text.split(",")]


def _counts(text: str | None) -> list[int]:
    from scalewright.errors import InvalidError

    try:
        return [int(part) for part in _parts(text)]
    except ValueError:
        message = f"--counts: got {text!r:.60}; allowed: whole numbers, as 512,1024"
        raise InvalidError(message) from None


def _named(option: str, texts: Iterable[str], form: str) -> dict[str, str]:
    """Read `name=text` options; refuse other forms, and a name that comes twice."""
    from scalewright.errors import InvalidError

    found: dict[str, str] = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        if not equals or not rest:
            message = f"{option}: got {text!r:.60}; allowed: {form}"
            raise InvalidError(message)
        if name in found:
            message = f"{option}: got {name} twice; allowed: each name once"
            raise InvalidError(message)
        found[name] = rest
    return found


def _constants(texts: Iterable[str]) -> dict[str, list[dict[str, object]]]:
    named = _named("--vary", texts, "CONSTANT=VALUE,VALUE")
    return {name: [_step(name, part) for part in _parts(rest)] for name, rest in named.items()}


def _step(name: str, text: str) -> dict[str, object]:
    """Read a factor or a value, and what it costs behind an `@`."""
    value, at, price = text.partition("@")
    factor = _number(value)
    step: dict[str, object] = {"value": value} if factor is None else {"factor": factor}
    if at:
        times = price.startswith("x")
        amount = _number(price.removeprefix("x"))
        if amount is None:
            from scalewright.errors import InvalidError

            message = (
                f"--vary: {name}: got {text!r:.60}; allowed: VALUE, VALUE@DOLLARS or VALUE@xFACTOR"
            )
            raise InvalidError(message)
        step["price_factor" if times else "price_usd"] = amount
    return step


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _budget(texts: Iterable[str]) -> dict[str, object]:
    named = _named("--budget", texts, "NAME=LIMIT, as watts=1MW")
    budget: dict[str, object] = {}
    for name, text in named.items():
        number = _number(text)
        whole = number is not None and number.is_integer()
        budget[name] = int(number) if number is not None and whole else number or text
    return budget
