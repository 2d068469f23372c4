"""`scalewright sensitivity`: what do the constants of the machines do to a plan?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.cli.job_options import add_job_options, job_of

if TYPE_CHECKING:
    import argparse

    from scalewright.cli.verb import Verbs


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "sensitivity", help="say how far each constant of the machines moves a step"
    )
    parser.add_argument(
        "plan",
        nargs="?",
        metavar="PLAN",
        help="a JSON file, or fields as tensor=8,pipeline=8 (the best plan)",
    )
    add_job_options(parser, runs=False)
    how = parser.add_argument_group("changes")
    how.add_argument(
        "--change",
        type=float,
        default=0.1,
        metavar="SHARE",
        help="share by which each constant is made larger, then smaller (0.1)",
    )
    how.add_argument(
        "--search",
        action="store_true",
        help="search the best plan anew under each change: where it becomes another",
    )
    how.add_argument(
        "--fix",
        action="extend",
        nargs="+",
        default=[],
        metavar="FIELD=V1,V2",
        help="values that a plan field may take in the search for a plan, as tensor=8",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--top", type=int, default=20, metavar="K", help="constants to show (20)")
    output.add_argument("--json", action="store_true", help="print JSON for machines")
    output.add_argument("--picture", metavar="FILE", help="draw to FILE.svg, .pdf or .png")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Price the plan under each change, show it, and return the exit code."""
    from scalewright.cli.output import progress_bar, show_json
    from scalewright.cli.refusing import refuse
    from scalewright.config import need_count, pinned_fields
    from scalewright.planning import sensitivity_job

    most = need_count("--top", options.top)
    if options.picture:
        from scalewright.report.timeline import check_picture

        check_picture(options.picture)
    if options.fix and options.plan is not None and not options.search:
        refuse("fix", " ".join(options.fix), "only with --search, or without a plan")
    fix = pinned_fields(options.fix)
    asked = {"change": options.change, "search": options.search}
    with progress_bar("pricing changes") as progress:
        found = sensitivity_job(job_of(options), options.plan, asked, fix, progress)
    if options.picture:
        from scalewright.report.tornado import draw_tornado

        draw_tornado(found, options.picture, most)
    if options.json:
        show_json(found.to_dict())
    else:
        from scalewright.report import console, show_sensitivity

        show_sensitivity(found, console(), most)
    return 0 if found.values["fits"] else 3
