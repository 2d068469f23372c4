"""`scalewright collective`: how long does a collective take at each size, and why?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from numpy import float64
    from numpy.typing import ArrayLike, NDArray

    from scalewright.cli.verb import Verbs
    from scalewright.planning import Collective, System

DEFAULT_SIZES = "1K:16G:2"
_PLOTTED = 400
_SLOW = (1e6, 2e6)
"""Rates, in bytes/s, so low that every algorithm which uses a level takes longer at the former."""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = verbs.add_parser("collective", help="price a collective by size and algorithm")
    parser.add_argument(
        "name",
        metavar="COLLECTIVE",
        help="all_reduce, all_gather, reduce_scatter, all_to_all, send_receive, broadcast, reduce, "
        "gather, scatter or barrier",
    )
    parser.add_argument(
        "--system", required=True, metavar="NAME|FILE", help="catalog name or TOML file"
    )
    parser.add_argument("--ranks", type=int, metavar="N", help="members of the group (one node)")
    parser.add_argument(
        "--stride", type=int, default=1, metavar="K", help="distance between neighbours (1)"
    )
    parser.add_argument(
        "--sizes",
        default=DEFAULT_SIZES,
        metavar="FIRST:LAST:FACTOR|LIST",
        help=f"buffers as nccl-tests counts them; K, M, G are powers of 1,024 ({DEFAULT_SIZES})",
    )
    _add_rules(parser)
    parser.add_argument(
        "--catalog",
        action="append",
        default=[],
        metavar="DIR|FILE",
        help="your own entries, as `scalewright calibrate` writes them; may be repeated",
    )
    output = parser.add_argument_group("output")
    form = output.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON for machines")
    form.add_argument(
        "--like", choices=("nccl-tests",), help="print what nccl-tests would, to set beside a run"
    )
    output.add_argument(
        "--picture", "--plot", metavar="FILE", help="draw to FILE.png, .svg or .html"
    )
    parser.set_defaults(run=run)


def _add_rules(parser: argparse.ArgumentParser) -> None:
    rules = parser.add_argument_group("rules")
    rules.add_argument("--algorithm", metavar="A[,B]", help="only these compete")
    rules.add_argument("--forbid", metavar="A[,B]", help="these may not run")
    rules.add_argument("--protocol", metavar="P", help="only LL, LL128 or Simple")
    rules.add_argument(
        "--bandwidth", metavar="RATE", help='one rate of one level per device, as "400 Gb/s"'
    )
    rules.add_argument(
        "--level",
        metavar="NAME",
        help="the one level that --bandwidth prices (the outermost of the group)",
    )
    rules.add_argument("--in-place", action="store_true", help="results take the place of inputs")


def run(options: argparse.Namespace) -> int:
    """Price the collective and show it."""
    if options.picture:
        from scalewright.report.curves import check_plot

        check_plot(options.picture)
    if options.level is not None and options.bandwidth is None:
        from scalewright.cli.refusing import refuse

        refuse("level", options.level, "only with --bandwidth")
    question = _Question(options)
    if options.picture:
        question.plot(options.picture)
    if options.like:
        question.show_like()
    elif options.json:
        question.show_json()
    else:
        question.show()
    return 0


class _Question:
    """What is asked of the engine, once for a table and again for each drawing."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Read the machines and the sizes."""
        from scalewright.config import buffer_sizes

        self.options = options
        self.name = _engine_name(options.name)
        self.sizes = buffer_sizes(options.sizes)
        self.machines, self.ranks = _machines(options)
        self.rate = _rate(options, self.machines)
        self._need_level()

    def asked(self, sizes: ArrayLike, **changes: object) -> Collective:
        """Return the engine's answer, with other rules where `changes` says so."""
        from scalewright.planning import collective

        options = self.options
        rules: dict[str, Any] = {
            "bandwidth_bytes_per_s": self.rate,
            "level": options.level,
            "algorithms": _listed(options.algorithm),
            "forbid": _listed(options.forbid),
            "protocol": options.protocol,
            "in_place": options.in_place,
            **changes,
        }
        return collective(
            self.name, sizes, self.machines, self.ranks, stride=options.stride, **rules
        )

    def _need_level(self) -> None:
        """Refuse a level that the group does not cross: its rate would change nothing."""
        asked = self.options.level
        levels = [str(level["name"]) for level in self.machines.table["levels"]]
        if asked not in levels or self.ranks == 1 or self._bears(asked):
            return
        crossed = [level for level in levels if self._bears(level)]
        if not crossed:
            return  # of a barrier, which moves no bytes, no rate bears on anything

        from scalewright.cli.refusing import refuse

        of = f"{self.ranks:,} ranks, stride {self.options.stride:,}"
        refuse("level", asked, f"{' or '.join(crossed)}, which {of}, cross")

    def _bears(self, level: str) -> bool:
        """Say whether any algorithm takes longer where this level is slow."""
        slow = [
            self.asked([1.0], level=level, bandwidth_bytes_per_s=rate).lines() for rate in _SLOW
        ]
        return slow[0] != slow[1]

    def show(self) -> None:
        """Print the tables and the drawing."""
        from scalewright.report import console, show_collective
        from scalewright.report.chart import chart_columns

        screen = console()
        answer = self.asked(self.sizes)
        curve = self.asked(self._between(chart_columns(screen.width)))
        show_collective(answer, curve, self._title(), screen)

    def show_json(self) -> None:
        """Print everything for machines."""
        from scalewright.cli.output import show_json

        show_json(self.asked(self.sizes).to_dict())

    def show_like(self) -> None:
        """Print what nccl-tests would."""
        from scalewright.planning import stamp
        from scalewright.report.nccl_tests import Run, program_sizes, show_like_nccl_tests

        made = stamp(self.options.catalog)
        note = [
            f"Predicted by scalewright {made['engine_version']} for {self.machines.name}, catalog "
            f"{made['catalog_hash']}; nothing was run",
            "In-place times leave out the copy of a rank's own part; the rest is the same",
        ]
        if self.name == "send_receive":
            note.append(
                "Every rank sends over the outermost level at once; sendrecv_perf sends to the "
                "next rank, so where ranks share adapters it is up to as many times faster"
            )
        sizes = program_sizes(self.name, self.ranks, self.sizes)
        run = Run(self.name, self.machines, self.ranks, self.options.stride, sizes, note)
        both = self.asked(sizes, in_place=False), self.asked(sizes, in_place=True)
        show_like_nccl_tests(run, both, print)

    def plot(self, path: str) -> None:
        """Draw to a file.

        Raises:
            InvalidError: There is one size, or nothing moves.
        """
        from scalewright.errors import InvalidError
        from scalewright.report import quantities as q
        from scalewright.report.curves import Drawing, draw

        winner = self.asked(self._between(_PLOTTED))
        if len(winner.buffer_bytes) < 2 or not winner.bus_bandwidth_bytes_per_s.any():
            ranks, sizes = q.number(self.ranks, "rank"), q.number(len(self.sizes), "size")
            message = f"picture: got {self.name} on {ranks}, {sizes}; "
            raise InvalidError(message + "allowed: two sizes or more of what moves bytes")
        # as they were asked for: a count may follow a name, as in parameter_server:4
        names = _listed(self.options.algorithm) or [line.algorithm for line in winner.lines()]
        others = {
            name: self.asked(winner.buffer_bytes, algorithms=[name], forbid=None)
            for name in dict.fromkeys(names)
        }
        title, *more = self._title()
        draw(Drawing(title, "; ".join(more), winner, others), path)

    def _between(self, count: int) -> NDArray[float64]:
        """Return sizes at even distances on a scale of logarithms."""
        import numpy as np

        first, last = self.sizes[0], self.sizes[-1]
        return np.geomspace(first, last, count if last > first else 1)

    def _title(self) -> list[str]:
        options, machines = self.options, self.machines
        title = machines.device.get("title", machines.device["name"])
        said = ["in place" if options.in_place else "out of place"]
        if options.stride != 1:
            said.append(f"stride {options.stride}")
        for what, value in (
            ("only", options.algorithm),
            ("without", options.forbid),
            ("protocol", options.protocol),
            (f"{options.level or ''} bandwidth".strip(), options.bandwidth),
            ("overridden:", ", ".join(machines.overridden)),
        ):
            if value:
                said.append(f"{what} {value}")
        return [
            f"{self.name.replace('_', '-')} on {self.ranks:,} x {title} ({machines.name})",
            ", ".join(said),
        ]


def _engine_name(name: str) -> str:
    """Return the engine's name of a collective; what is unknown goes to the engine as it is."""
    from scalewright.calibration.measured import collective_named

    return collective_named(name) or name


def _listed(names: str | None) -> Sequence[str] | None:
    return None if names is None else [name.strip() for name in names.split(",")]


def _machines(options: argparse.Namespace) -> tuple[System, int]:
    """Return as many devices as the group spans, and the ranks of the group."""
    from scalewright.config import need_count
    from scalewright.planning import system
    from scalewright.planning.arguments import group_span

    need_count("stride", options.stride)
    one = system(options.system, 1, overrides=options.catalog)
    ranks = int(one.table["devices_per_node"]) if options.ranks is None else options.ranks
    need_count("ranks", ranks)
    span = group_span(one, ranks, options.stride)
    return system(options.system, span, overrides=options.catalog), ranks


def _rate(options: argparse.Namespace, machines: System) -> float | None:
    """Return `--bandwidth` in bytes/s; the engine reads it as it reads that of a level."""
    import json
    from dataclasses import replace

    from scalewright.errors import InvalidError, ScalewrightError

    if options.bandwidth is None:
        return None
    first, *others = machines.table["levels"]
    table = {**machines.table, "levels": [{**first, "bandwidth": options.bandwidth}, *others]}
    try:
        levels = json.loads(replace(machines, table=table).cluster.levels())
    except ScalewrightError:
        message = (
            f'bandwidth: got {options.bandwidth!r:.60}; allowed: a rate, as "50 GB/s" or "400 Gb/s"'
        )
        raise InvalidError(message) from None
    return float(levels[0]["bandwidth"])
