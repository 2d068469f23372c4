"""`scalewright plan`: which plans are best for a job?"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from scalewright.cli.job_options import add_job_options, add_output_options, job_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator, Mapping

    from scalewright.cli.verb import Verbs
    from scalewright.planning import Robust, Search

OBJECTIVES = ("time", "memory", "energy", "dollars", "devices")
INTERRUPTED = 130
OFFLOADS = ("auto", "always", "never")
DRAWS = {"samples": 256, "seed": 0, "pool": 200}
"""What a robust choice is made by where nothing else is asked for."""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = verbs.add_parser("plan", help="find the best plans for a job")
    add_job_options(parser)
    _add_search(parser)
    _add_means(parser)
    _add_robust(parser)
    add_output_options(parser)
    parser.set_defaults(run=run)


def _add_search(parser: argparse.ArgumentParser) -> None:
    search = parser.add_argument_group("search")
    search.add_argument("--top", type=int, default=5, metavar="K", help="plans to show (5)")
    search.add_argument(
        "--objective", choices=OBJECTIVES, default="time", help="what the best has least of (time)"
    )
    search.add_argument(
        "--fix",
        action="extend",
        nargs="+",
        default=[],
        metavar="FIELD=V1,V2",
        help="values that a plan field may take, as tensor=8 or recompute=none,selective",
    )
    search.add_argument(
        "--space",
        metavar="FILE",
        help="TOML file with lists of values, as tensor = [4, 8]; --fix narrows them",
    )
    search.add_argument(
        "--dtypes",
        metavar="D1,D2",
        help="precision recipes to choose from, as bf16,fp8 (the job's own)",
    )
    search.add_argument(
        "--distinct", metavar="FIELD", help="of all plans with one value of it show only the best"
    )
    search.add_argument(
        "--front",
        metavar="M1,M2",
        help="what plans are traded by: any of time,memory,energy,dollars,devices, or none "
        "(time,memory)",
    )
    search.add_argument(
        "--exhaustive",
        action="store_true",
        help="weigh every legal plan and price what fits, instead of excluding by bounds",
    )
    search.add_argument(
        "--offload",
        choices=OFFLOADS,
        default="auto",
        help="try plans that do not fit with tensors in other tiers: where nothing fits or the "
        "best keeps state on the host (auto), wherever they could be among the best, or never",
    )


def _add_robust(parser: argparse.ArgumentParser) -> None:
    robust = parser.add_argument_group("robust choice")
    robust.add_argument(
        "--robust",
        action="store_true",
        help="price the best plans under draws of the machines' constants",
    )
    robust.add_argument(
        "--uncertainty",
        metavar="FILE",
        help="TOML file with a table `uncertainty` of shares by constant (docs/robustness.md)",
    )
    robust.add_argument("--samples", type=int, metavar="N", help="draws (256)")
    robust.add_argument("--seed", type=int, metavar="N", help="which draws (0)")
    robust.add_argument("--pool", type=int, metavar="K", help="plans compared (200)")


def _add_means(parser: argparse.ArgumentParser) -> None:
    long = parser.add_argument_group("long searches")
    long.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="write about once a second how far the search is, and go on from there",
    )
    long.add_argument(
        "--all-plans",
        metavar="FILE",
        help="write every plan that is legal and fits (.parquet or .arrow)",
    )
    long.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="work on a Ray cluster: ray://host:port, host:port, auto or local",
    )


def run(options: argparse.Namespace) -> int:
    """Search, show what was found, and return the exit code."""
    from scalewright.cli.output import (
        progress_bar,
        refuse_two_formats,
        show_estimate_extras,
        show_json,
    )
    from scalewright.config import pinned_fields
    from scalewright.planning import allowed_values, search_job
    from scalewright.searching import SearchExecution

    _need_robust(options)
    refuse_two_formats(options)
    recipes = [] if options.dtypes is None else [f"dtype={options.dtypes}"]
    fix = allowed_values(pinned_fields([*options.fix, *recipes]), options.space)
    job = job_of(options)
    limits = _limits(options)
    means = SearchExecution(options.checkpoint, options.all_plans, ray_address=options.ray)
    with progress_bar("searching plans") as progress, _file_named(options.checkpoint):
        found = search_job(job, fix, limits, progress, means)
    winner = found[0] if found.best else None
    if winner and options.export:
        shown = show_estimate_extras(winner, options)
        return INTERRUPTED if found.stopped else shown
    wanted = options.robust and winner and not found.stopped
    robust = _robust(options, found, fix) if wanted else None
    if options.json:
        answer = found.to_dict()
        if robust is not None:
            answer["robust"] = dict(robust.values)
        show_json(answer, winner if options.explain else None)
    else:
        from scalewright.report import console, show_robust, show_search

        show_search(found, console(), stages=options.stages, kept=options.checkpoint)
        if robust is not None:
            show_robust(robust, console())
        if winner and options.explain:
            show_estimate_extras(winner, options)
    if found.stopped:
        return INTERRUPTED
    return 0 if found.feasible else 3


@contextmanager
def _file_named(checkpoint: str | None) -> Generator[None]:
    """Where a second Ctrl-C leaves no answer, say which file the search goes on from."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is not None and Path(checkpoint).exists():
            from scalewright.report import goes_on

            print(f"scalewright: {goes_on(checkpoint)}", file=sys.stderr)
        raise


def _limits(options: argparse.Namespace) -> dict[str, object]:
    """Return what is looked for."""
    from scalewright.planning import FRONT

    given: str | None = options.front
    listed = [] if given == "none" else [word.strip() for word in (given or "").split(",")]
    return {
        "top": options.top,
        "objective": options.objective,
        "distinct": None if options.distinct is None else _field(options.distinct),
        "front": list(FRONT) if given is None else listed,
        "method": "exhaustive" if options.exhaustive else "bounds",
        "offload": options.offload,
    }


def _field(name: str) -> str:
    """Return the plan field that `--distinct` names.

    Raises:
        UnknownNameError: There is none of this name; says which come nearest.
    """
    from scalewright.config import FIELDS
    from scalewright.config.choices import field_name
    from scalewright.errors import UnknownNameError

    try:
        return field_name(name, FIELDS)
    except UnknownNameError as error:
        message = f"--distinct: {error}"
        raise UnknownNameError(message) from error


def _need_robust(options: argparse.Namespace) -> None:
    """Refuse options of a robust choice where none is asked for.

    Raises:
        InvalidError: One is given without `--robust`.
    """
    from scalewright.errors import InvalidError

    for name in ("uncertainty", *DRAWS):
        given = getattr(options, name)
        if given is not None and not options.robust:
            message = f"--{name}: got '{given}' without --robust; allowed: only with --robust"
            raise InvalidError(message)


def _robust(options: argparse.Namespace, found: Search, fix: Mapping[str, object]) -> Robust:
    """Price the best plans under draws of the constants."""
    from scalewright.cli.output import progress_bar
    from scalewright.planning import robust_job, uncertainty_of

    asked: dict[str, object] = {
        "uncertainty": uncertainty_of(options.uncertainty),
        **{name: _given(getattr(options, name), usual) for name, usual in DRAWS.items()},
    }
    with progress_bar("pricing draws") as progress:
        return robust_job(found.job, asked, fix, progress)


def _given(value: int | None, usual: int) -> int:
    return usual if value is None else value
