"""`scalewright compare`: where do two plans for one job differ?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.cli.job_options import add_job_options, job_of

if TYPE_CHECKING:
    import argparse

    from scalewright.cli.verb import Verbs


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = verbs.add_parser("compare", help="set two plans for a job side by side")
    for name in ("PLAN_A", "PLAN_B"):
        parser.add_argument(
            name.lower(), metavar=name, help="a JSON file, or fields as tensor=8,pipeline=8"
        )
    add_job_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Price both plans, show them, and return the exit code."""
    from scalewright.planning import Comparison, estimate_job

    job = job_of(options)
    both = Comparison(estimate_job(job, options.plan_a), estimate_job(job, options.plan_b))
    if options.json:
        from scalewright.cli.output import show_json

        show_json(both.to_dict())
    else:
        from scalewright.report import console, show_comparison

        show_comparison(both, console())
    return 0 if both.first.fits and both.second.fits else 3
