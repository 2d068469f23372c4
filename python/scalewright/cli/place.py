"""`scalewright place`: where should each byte of a step live, and is that proven best?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.cli.estimate import add_plan_options, plan_of, stage_of
from scalewright.cli.job_options import add_job_options, add_names, job_of, take_names

if TYPE_CHECKING:
    import argparse

    from scalewright.cli.verb import Verbs

OBJECTIVES = ("time", "energy", "dollars")


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "place",
        help="place a plan's tensors over memory tiers, proven best",
        usage="scalewright place [MODEL SYSTEM] --devices N --global-batch B --sequence S ...",
    )
    add_names(parser)
    add_job_options(parser, required=False, required_system=False, runs=False)
    add_plan_options(parser)
    wish = parser.add_argument_group("placement")
    wish.add_argument(
        "--objective",
        default="time",
        help="time, energy or dollars, or weights as per_s=1,per_usd=2e-4",
    )
    wish.add_argument("--stage", type=int, metavar="N", help="pipeline stage, from 1 (the fullest)")
    wish.add_argument("--whole", action="store_true", help="tensors may not be split over tiers")
    wish.add_argument(
        "--years", type=float, metavar="Y", help="no tier may wear out within Y years"
    )
    wish.add_argument(
        "--relative-gap", type=float, metavar="G", help="where the proof may stop (1e-6)"
    )
    wish.add_argument(
        "--tier", action="append", default=[], metavar="NAME", help="only these tiers"
    )
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print JSON for machines")
    output.add_argument("--tensors", action="store_true", help="list every tensor")
    output.add_argument("--picture", metavar="FILE", help="draw to FILE.svg, .pdf or .png")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Place, show the answer, and return the exit code."""
    from scalewright.planning import place

    take_names(options)
    if options.picture:
        from scalewright.report.memory_picture import check_memory_picture

        check_memory_picture(options.picture)
    job, plan = job_of(options), plan_of(options, {})
    placement = place(
        job.model,
        job.system,
        plan,
        job.training,
        objective=_objective(options.objective),
        stage=stage_of(options.stage, plan),
        whole=options.whole,
        years=options.years,
        relative_gap=options.relative_gap,
        tiers=options.tier,
        memory_margin=options.memory_margin,
    )
    if options.json:
        from scalewright.cli.output import show_json

        show_json(placement.to_dict())
    else:
        from scalewright.report import console, show_overridden, show_placement

        show_placement(placement, console(), tensors=options.tensors)
        show_overridden(console(), job.model, job.system)
    if options.picture and placement.feasible:
        from scalewright.report.memory_picture import draw_memory

        title = f"{job.model.name} on {job.system.devices} devices of {job.system.name}"
        draw_memory(placement, options.picture, title)
    return 0 if placement.feasible else 3


def _objective(text: str) -> str | dict[str, float]:
    from scalewright.errors import InvalidError

    if "=" not in text:
        return text
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            weights[name.strip()] = float(value)
        except ValueError as error:
            message = f"--objective: got {part!r:.60}; allowed: a name and a number, as per_s=1"
            raise InvalidError(message) from error
    return weights
