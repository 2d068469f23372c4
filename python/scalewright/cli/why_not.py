"""`scalewright why-not`: why is a plan not the best?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.cli.job_options import add_job_options, job_of

if TYPE_CHECKING:
    import argparse

    from scalewright.cli.verb import Verbs


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = verbs.add_parser("why-not", help="say why a plan is not the best")
    parser.add_argument(
        "plan", metavar="PLAN", help="a JSON file, or fields as tensor=8,pipeline=8"
    )
    add_job_options(parser)
    parser.add_argument(
        "--fix",
        action="extend",
        nargs="+",
        default=[],
        metavar="FIELD=V1,V2",
        help="values that a field of the other plans may take, as tensor=8",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Price the plan, search for those ahead of it, show both, and return the exit code."""
    from scalewright.cli.output import progress_bar, show_json
    from scalewright.config import pinned_fields
    from scalewright.planning import why_not_job

    fix = pinned_fields(options.fix)
    with progress_bar("searching plans") as progress:
        found = why_not_job(job_of(options), options.plan, fix, progress)
    if options.json:
        show_json(found.to_dict())
    else:
        from scalewright.report import console, show_why_not

        show_why_not(found, console())
    return 0 if found.estimate is not None and found.estimate.fits else 3
