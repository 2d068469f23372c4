"""`scalewright controller`: is dispatch hidden, and under which controller?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from scalewright.cli.verb import Verbs

_COSTS = {
    "latency": "one way over the data-centre network (250 us)",
    "message": "the controller's CPU for one host (20.2 us)",
    "handle": "the controller's CPU for one device (0)",
    "scheduler": "an island's scheduler for one computation (0)",
    "prepare": "a host's CPU for one computation (60.7 us)",
    "enqueue": "from host to device (1 us)",
}

_MOST = 2**18 + 1
"""More computations than the engine takes."""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = verbs.add_parser("controller", help="say what dispatch costs, by controller")
    parser.add_argument(
        "--computation", required=True, metavar="TIME", help='time of a computation, as "5 ms"'
    )
    parser.add_argument("--computations", type=int, default=1, metavar="N", help="of a step (1)")
    parser.add_argument("--hosts", type=int, required=True, metavar="N", help="machines")
    parser.add_argument("--devices-per-host", type=int, default=1, metavar="N", help="of each (1)")
    parser.add_argument("--islands", type=int, default=1, metavar="N", help="of hosts (1)")
    parser.add_argument(
        "--groups", type=int, default=1, metavar="N", help="of devices, which take turns (1)"
    )
    parser.add_argument("--transfer", metavar="TIME", help="from an island to the next (0)")
    parser.add_argument("--input", metavar="TIME", help="a host's input pipeline, per step (0)")
    parser.add_argument(
        "--prefetch", type=int, default=1, metavar="N", help="steps whose input may lie ready (1)"
    )
    costs = parser.add_argument_group("costs of dispatch")
    for name, meaning in _COSTS.items():
        costs.add_argument(f"--{name}", metavar="TIME", help=meaning)
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Dispatch the computations under every controller and show what they cost."""
    from scalewright.cli.refusing import refuse
    from scalewright.config import need_count
    from scalewright.planning import controllers, stamp

    if options.transfer is not None and options.islands == 1:
        refuse("transfer", options.transfer, "only with --islands")
    if options.prefetch != 1 and options.input is None:
        refuse("prefetch", options.prefetch, "only with --input")
    count = need_count("computations", options.computations)
    setting: dict[str, Any] = {
        "hosts": options.hosts,
        "devices_per_host": options.devices_per_host,
        "islands": options.islands,
        "costs": {name: given for name in _COSTS if (given := getattr(options, name)) is not None},
        "transfers": {} if options.transfer is None else {"between": options.transfer},
        "input_s": () if options.input is None else options.input,
        "prefetch": options.prefetch,
    }
    # more than the engine takes is refused there, and need not be written out here
    program = {
        "seconds": [options.computation] * min(count, _MOST),
        "groups": need_count("groups", options.groups),
    }
    answers = controllers(program, **setting)
    if options.json:
        from scalewright.cli.output import show_json

        show_json({**stamp(), "controllers": [answer.plain() for answer in answers]})
        return 0
    from scalewright.report import console, show_controllers

    show_controllers(answers, console())
    return 0
