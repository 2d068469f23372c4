"""`scalewright plan-unlike`: which plans are best on groups of unlike devices?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.cli.job_options import OPTIMIZERS, PRECISIONS, STATES, add_catalog

if TYPE_CHECKING:
    import argparse

    from scalewright.cli.verb import Verbs


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = verbs.add_parser("plan-unlike", help="find the best pipelines over unlike devices")
    parser.add_argument(
        "--model", required=True, metavar="NAME|FILE", help="catalog name, config.json or TOML"
    )
    parser.add_argument(
        "--group",
        action="append",
        required=True,
        metavar="SYSTEM:DEVICES",
        help="devices that are alike, as dgx-h100:32; once for each group",
    )
    parser.add_argument(
        "--between",
        metavar="LINK",
        help='what joins groups: "25 GB/s, 10 us" (per device and direction), a system whose '
        "outermost level it is, or SYSTEM:LEVEL",
    )
    parser.add_argument(
        "--global-batch", required=True, type=int, metavar="B", help="sequences per step"
    )
    parser.add_argument(
        "--sequence", required=True, type=int, metavar="S", help="tokens per sequence"
    )
    parser.add_argument("--precision", choices=PRECISIONS, default="bf16", help="formats (bf16)")
    parser.add_argument(
        "--state", choices=STATES, default="fp32", help="moments and master weights (fp32)"
    )
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adam", help="(adam)")
    parser.add_argument(
        "--software", metavar="NAME", help="profile of the training program (docs/software.md)"
    )
    parser.add_argument("--forward-only", action="store_true", help="no gradients, no optimizer")
    parser.add_argument(
        "--memory-margin", type=float, default=0.0, metavar="SHARE", help="to leave free (0)"
    )
    add_catalog(parser.add_argument)
    parser.add_argument("--top", type=int, default=5, metavar="K", help="plans to show (5)")
    parser.add_argument(
        "--fix",
        action="extend",
        nargs="+",
        default=[],
        metavar="FIELD=V1,V2",
        help="values that a plan field may take, as tensor=8 or zero=0,1",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Search, show what was found, and return the exit code."""
    from scalewright.cli.output import progress_bar, show_json
    from scalewright.config import Training, pinned_fields
    from scalewright.planning import model, search_unlike

    training = Training(
        global_batch=options.global_batch,
        sequence=options.sequence,
        precision=options.precision,
        # gradients of weights that are updated themselves have their format
        state=options.state,
        gradient=options.state,
        optimizer=options.optimizer,
        forward_only=options.forward_only,
    )
    with progress_bar("searching plans") as progress:
        found = search_unlike(
            model(options.model, overrides=options.catalog),
            options.group,
            training,
            between=options.between,
            top=options.top,
            fix=pinned_fields(options.fix),
            memory_margin=options.memory_margin,
            software=options.software,
            overrides=options.catalog,
            progress=progress,
        )
    if options.json:
        show_json(found.to_dict())
    else:
        from scalewright.report import console, show_unlike

        show_unlike(found, console())
    return 0 if found.feasible else 3
