"""`scalewright offload`: what does a step cost whose weights or state live beyond the device?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scalewright.cli.estimate import add_plan_options
from scalewright.cli.job_options import add_job_options, job_of

if TYPE_CHECKING:
    import argparse

    from scalewright.cli.verb import Verbs
    from scalewright.planning import Job

_OF_THE_SCHEME = (
    *("zero", "schedule", "collectives"),
    *("overlap_grad_reduce", "overlap_param_gather"),
)
"""Fields of a plan in whose place a scheme has its own rules."""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = verbs.add_parser("offload", help="price steps that use memory beyond the device")
    add_job_options(parser, runs=False)
    add_plan_options(parser)
    how = parser.add_argument_group("scheme")
    how.add_argument(
        "--scheme",
        required=True,
        metavar="NAME",
        help="zero-offload, zero-infinity, patrickstar, granular or weight-streaming",
    )
    how.add_argument(
        "--set",
        action="extend",
        nargs="+",
        default=[],
        metavar="FIELD=VALUE",
        help="fields of the scheme, as optimizer=drive",
    )
    how.add_argument(
        "--largest",
        choices=("layers", "hidden"),
        help="find the largest model instead, grown in layers or in width",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print JSON for machines")
    output.add_argument("--timeline", metavar="FILE", help="write a trace for Perfetto or Chrome")
    output.add_argument("--picture", metavar="FILE", help="draw to FILE.svg, .pdf or .png")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Price the step, or find the largest model, and show it."""
    from scalewright.cli.estimate import plan_of
    from scalewright.cli.refusing import refuse_set_aside
    from scalewright.planning.offloading import offload_job

    if options.picture:
        from scalewright.report.timeline import check_picture

        check_picture(options.picture)
    refuse_set_aside(
        options, _OF_THE_SCHEME, "the scheme shards, gathers and sums by its own rules"
    )
    job, plan = job_of(options), plan_of(options, {})
    fields = _fields(options.set)
    if options.largest:
        return _largest(options, job, fields, plan)
    drawn = bool(options.timeline or options.picture)
    found = offload_job(job, options.scheme, plan, tasks=drawn, fields=fields)
    if options.timeline:
        from scalewright.export.trace import write_trace

        write_trace(found.timeline(), options.timeline)
    if options.picture:
        from scalewright.report.timeline import draw_timelines

        draw_timelines([found.timeline()], options.picture)
    if options.json:
        from scalewright.cli.output import show_json

        show_json(found.to_dict())
    else:
        from scalewright.report import console, show_offload

        show_offload(found, job, plan, console())
    return 0 if found.fits else 3


def _largest(
    options: argparse.Namespace, job: Job, fields: dict[str, object], plan: dict[str, object]
) -> int:
    from scalewright.planning.offloading import largest_job

    found = largest_job(job, options.scheme, plan, grow=options.largest, fields=fields)
    if options.json:
        from scalewright.cli.output import show_json

        show_json(found.to_dict())
    else:
        from scalewright.report import console, show_largest

        show_largest(found, job, plan, console())
    return 0


def _fields(texts: list[str]) -> dict[str, object]:
    """Read `FIELD=VALUE`; what is no JSON is text.

    Raises:
        InvalidError: There is no `=`.
    """
    from scalewright.errors import InvalidError

    found: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            message = f"--set: got '{text}'; allowed: FIELD=VALUE, as optimizer=drive"
            raise InvalidError(message)
        field = name.strip().replace("-", "_")
        if field in found:
            message = f"--set: {field}: given twice"
            raise InvalidError(message)
        found[field] = _value(value.strip())
    return found


def _value(text: str) -> object:
    words: dict[str, object] = {"on": True, "yes": True, "off": False, "no": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
