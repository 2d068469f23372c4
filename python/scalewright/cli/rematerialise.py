"""`scalewright rematerialise`: what should a stage keep, compute again or move to its host?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.cli.estimate import add_plan_options
from scalewright.cli.job_options import add_job_options, job_of

if TYPE_CHECKING:
    import argparse

    from scalewright.cli.verb import Verbs

_ANSWERED = (
    *("recompute", "recompute_layers", "recompute_rest", "recompute_experts"),
    "offload_activations",
)
"""Fields of a plan that the answer takes the place of."""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    what = "say what each block should keep, recompute or offload"
    parser = verbs.add_parser("rematerialise", help=what)
    add_job_options(parser, runs=False)
    add_plan_options(parser)
    chain = parser.add_argument_group("chain", "One micro-batch through the blocks of a stage.")
    chain.add_argument(
        "--stage", type=int, default=1, metavar="N", help="pipeline stage, from 1 (the first)"
    )
    chain.add_argument(
        "--budget",
        metavar="SIZE",
        help='memory for one micro-batch, as "20 GiB" (a share of what the plan leaves)',
    )
    chain.add_argument("--no-offload", action="store_true", help="nothing moves to the host")
    chain.add_argument(
        "--slots", type=int, metavar="N", help="slots of the budget for recomputation alone (500)"
    )
    chain.add_argument(
        "--width", type=int, metavar="N", help="choices that are followed side by side (512)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Choose for every block of the stage and show it."""
    from scalewright.cli.estimate import plan_of, stage_of
    from scalewright.cli.refusing import refuse_set_aside
    from scalewright.planning import rematerialise_job
    from scalewright.planning.rematerialising import SLOTS, WIDTH

    refuse_set_aside(options, _ANSWERED, "what to compute again or move is the answer")
    job, plan = job_of(options), plan_of(options, {})
    stage = stage_of(options.stage, plan) or 0
    found = rematerialise_job(
        job,
        plan,
        stage=stage,
        budget_bytes=_bytes(options.budget),
        offload=not options.no_offload,
        slots=SLOTS if options.slots is None else options.slots,
        width=WIDTH if options.width is None else options.width,
    )
    if options.json:
        from scalewright.cli.output import show_json

        show_json(found.to_dict())
        return 0
    from scalewright.report import console, show_rematerialisation

    show_rematerialisation(found, job, plan, stage, console())
    return 0


def _bytes(text: str | None) -> float | str | None:
    """Return a plain number as such; the engine reads the others with their units."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text
