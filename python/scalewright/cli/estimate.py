"""`scalewright estimate`: what does one plan cost?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.cli.job_options import add_job_options, add_output_options, job_of

if TYPE_CHECKING:
    import argparse

    from scalewright.cli.verb import Verbs
    from scalewright.planning import Estimate, SimulatedStep

RECOMPUTE = ("none", "selective", "full")
REST = ("none", "selective")
EXPERTS = ("same", *RECOMPUTE)
COUNTS = {
    "tensor": "ranks that split each layer's matrices (1)",
    "tensor-rows": "rows of a grid of the tensor ranks (1)",
    "pipeline": "pipeline stages (1)",
    "data": "replicas that split the batch (all devices left)",
    "context": "ranks that split each sequence (1)",
    "expert": "ranks that split the experts (1)",
    "expert-tensor": "ranks that split each expert: 1, or the tensor ranks (0)",
    "micro-batch": "sequences per micro-batch and replica (1)",
    "interleave": "model chunks per stage (what the schedule needs)",
    "zero-group": "ranks over which ZeRO shards (all replicas)",
    "recompute-layers": "leading layers of each virtual stage that --recompute is for (all)",
    "tensor-chunks": "chunks of a forward product that its tensor collective runs under (1)",
    "first-layers": "layers of the first virtual stage (as many as the others)",
    "last-layers": "layers of the last virtual stage (as many as the others)",
    "offload-activations": "percent of the layers' kept activations in host memory (0)",
}
FLAGS = {
    "sequence-parallel": "norms and dropouts split along the sequence (off)",
    "bare-last": "no layer beside the head in the last virtual stage (off)",
    "overlap-grad-reduce": "gradient reduction under the backward pass (on)",
    "overlap-param-gather": "ZeRO weight gathers under compute (on)",
    "overlap-tensor": "tensor collectives under weight gradients (on)",
    "overlap-pipeline": "sends under compute, not with gpipe and 1f1b (on elsewhere)",
    "overlap-expert": "expert all-to-alls under the kernels of shared experts (off)",
    "offload-optimizer": "optimizer state in host memory, updated there (off)",
}


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = verbs.add_parser("estimate", help="price one plan for a job")
    add_job_options(parser, required=False)
    parser.add_argument(
        "--from-megatron",
        metavar="FILE",
        help="read model, training and plan from Megatron-LM arguments; other options win",
    )
    add_plan_options(parser)
    add_output_options(parser)
    _add_step_options(parser)
    parser.set_defaults(run=run)


def _add_step_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that simulate the step task by task."""
    step = parser.add_argument_group(
        "simulated step", "Every kernel, collective and send on one rank of each pipeline stage."
    )
    step.add_argument(
        "--simulate", action="store_true", help="set the simulated step beside the estimate"
    )
    step.add_argument("--timeline", metavar="FILE", help="write a trace for Perfetto or Chrome")
    step.add_argument("--picture", metavar="FILE", help="draw to FILE.svg, .pdf or .png")


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that set the fields of a plan."""
    from argparse import BooleanOptionalAction

    plan = parser.add_argument_group("plan")
    plan.add_argument(
        "--plan", metavar="FILE|FIELDS", help="a JSON file, or tensor=8,pipeline=8; options win"
    )
    for name, meaning in COUNTS.items():
        plan.add_argument(f"--{name}", type=int, metavar="N", help=meaning)
    plan.add_argument("--zero", type=int, choices=range(4), help="ZeRO stage, 3 as in FSDP (0)")
    plan.add_argument("--recompute", choices=RECOMPUTE, help="what is computed again (none)")
    plan.add_argument(
        "--recompute-rest",
        choices=REST,
        help="what the layers behind --recompute-layers compute again (none)",
    )
    plan.add_argument(
        "--recompute-experts",
        choices=EXPERTS,
        help="what layers with routed experts compute again where --recompute applies (same)",
    )
    plan.add_argument(
        "--schedule",
        metavar="NAME",
        help="order of micro-batches (1f1b; interleaved with --interleave); "
        "`scalewright schedule --list` names all",
    )
    plan.add_argument(
        "--token-slices",
        metavar="N|LENGTHS",
        help="slices of each sequence along its tokens, as 4 or 776+640+632 (1: whole)",
    )
    plan.add_argument(
        "--axis-order",
        metavar="ORDER",
        help="axes from the innermost on the fabric out (tensor-context-data-pipeline)",
    )
    plan.add_argument(
        "--collectives",
        metavar="ALGORITHM",
        help="algorithm of all-reduces between replicas, as ring (auto: the library's choice)",
    )
    for name, meaning in FLAGS.items():
        plan.add_argument(f"--{name}", action=BooleanOptionalAction, default=None, help=meaning)


def run(options: argparse.Namespace) -> int:
    """Price, show the answer, and return the exit code."""
    from scalewright.cli.output import refuse_two_formats, show_estimate_extras, show_json
    from scalewright.planning import estimate_job

    if options.picture:
        from scalewright.report.timeline import check_picture

        check_picture(options.picture)
    refuse_two_formats(options)
    read = _read(options)
    job = job_of(options, read)
    priced = estimate_job(job, plan_of(options, read))
    step = _simulated(priced, options)
    if options.export:
        return show_estimate_extras(priced, options)
    if options.json:
        values = priced.to_dict()
        if step is not None:
            values["simulated_step"] = step.plain()
        show_json(values, priced if options.explain else None)
    else:
        from scalewright.report import console, show_estimate

        show_estimate(priced, console(), stages=options.stages)
        if options.explain:
            show_estimate_extras(priced, options)
        if step is not None:
            from scalewright.report import show_simulated_step

            show_simulated_step(step, console())
    return 0 if priced.fits else 3


def _simulated(priced: Estimate, options: argparse.Namespace) -> SimulatedStep | None:
    """Simulate the step if asked to, and write its trace and picture."""
    if not (options.simulate or options.timeline or options.picture):
        return None
    from scalewright.planning import simulate_job

    step = simulate_job(priced.job, dict(priced.values["plan"]))
    if options.timeline:
        from scalewright.export.trace import write_trace

        write_trace(step.timeline(), options.timeline)
    if options.picture:
        from scalewright.report.timeline import draw_timelines

        draw_timelines([step.operations()], options.picture)
    return step


def _read(options: argparse.Namespace) -> dict[str, Any]:
    if options.from_megatron is not None:
        from scalewright.export import read_megatron

        return read_megatron(options.from_megatron)
    if options.model is None:
        from scalewright.errors import InvalidError

        message = "--model: got nothing; allowed: a name or a file, or --from-megatron"
        raise InvalidError(message)
    return {}


def stage_of(number: int | None, plan: dict[str, object]) -> int | None:
    """Return the index of a stage of a plan that a person counts from 1; None for none.

    Raises:
        InvalidError: The plan has no such stage.
    """
    from scalewright.cli.refusing import refuse

    if number is None:
        return None
    stages = plan.get("pipeline", 1)
    if number < 1:
        refuse("stage", number, "1 or more")
    if isinstance(stages, int) and 0 < stages < number:
        refuse("stage", number, f"1 to {stages}, the pipeline's stages")
    return number - 1


def plan_of(options: argparse.Namespace, read: dict[str, Any]) -> dict[str, object]:
    """Return the plan fields: the options over --plan over the file."""
    from scalewright.config import FIELDS, plan_fields

    plan: dict[str, object] = dict(read.get("plan", {}))
    if options.plan is not None:
        plan.update(plan_fields(options.plan))
    given = {name: getattr(options, name) for name in FIELDS}
    plan.update({name: value for name, value in given.items() if value is not None})
    return plan
