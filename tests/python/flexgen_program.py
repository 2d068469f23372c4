"""FlexGen's own linear program, written out from its paper and cost model for HiGHS."""

from dataclasses import dataclass
from typing import Any

import highspy

GIB = 2.0**30
# layer times, then shares of weights, cache and states
NAMES = ["T_p", "T_g", "wg", "wc", "wn", "cg", "cc", "cn", "hg", "hc", "hn"]


@dataclass(frozen=True)
class Shape:
    """An OPT model, and lengths."""

    layers: int
    hidden: int
    heads: int
    prompt: int = 512
    generated: int = 32

    @property
    def inner(self) -> int:
        return 4 * self.hidden

    @property
    def weights(self) -> float:
        return 8.0 * self.hidden**2 + 4.0 * self.hidden * self.inner


OPT = {"6.7b": Shape(32, 4096, 32), "30b": Shape(48, 7168, 56), "175b": Shape(96, 12288, 96)}


class Program:
    """Rows of `sum(coefficient * name) <= limit`, collected and solved."""

    def __init__(self, shape: Shape, sequences: int) -> None:
        self.solver = highspy.Highs()
        for name, value in (
            ("output_flag", False),
            ("threads", 1),
            ("primal_feasibility_tolerance", 1e-9),
            ("dual_feasibility_tolerance", 1e-9),
        ):
            self.solver.setOptionValue(name, value)
        per_sequence = 1.0 / sequences
        costs = {
            "T_p": shape.layers * per_sequence,
            "T_g": shape.layers * (shape.generated - 1) * per_sequence,
        }
        for name in NAMES:
            most = 0.0 if name == "hn" else highspy.kHighsInf  # states may not lie on disk
            self.solver.addCol(costs.get(name, 0.0), 0.0, most, 0, [], [])

    def at_most(self, limit: float, **of: float) -> None:
        self._row(-highspy.kHighsInf, limit, of)

    def exactly(self, value: float, **of: float) -> None:
        self._row(value, value, of)

    def longer(self, window: str, *terms: dict[str, float], base: float = 0.0) -> None:
        """Let a window be at least as long as terms in seconds that add up."""
        row: dict[str, float] = {window: -1.0}
        for term in terms:
            for name, amount in term.items():
                row[name] = row.get(name, 0.0) + amount
        self.at_most(-base, **row)

    def _row(self, low: float, high: float, of: dict[str, float]) -> None:
        scale = max(1.0, abs(high) if abs(high) < 1e20 else 1.0)
        columns = [NAMES.index(name) for name in of]
        values = [amount / scale for amount in of.values()]
        self.solver.addRow(low / scale, high / scale, len(of), columns, values)

    def solve(self) -> float | None:
        """Return seconds a sequence; None where nothing fits."""
        self.solver.run()
        status: Any = self.solver.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            return None
        return self.solver.getInfo().objective_function_value


def scaled(term: dict[str, float], by: float) -> dict[str, float]:
    return {name: amount * by for name, amount in term.items()}


def seconds_a_sequence(shape: Shape, g: int, batches: int) -> float | None:
    """Return the least seconds a sequence for batches of `g`, by FlexGen's constants of one T4."""
    b = g * batches
    s, n, layers, h1, h2 = shape.prompt, shape.generated, shape.layers, shape.hidden, shape.inner
    w, nh = shape.weights, shape.heads
    program = Program(shape, b)
    for kind in "wch":
        program.exactly(1.0, **{f"{kind}{home}": 1.0 for home in "gcn"})

    # seconds of a layer; the disk's rates and the link's as they were fitted
    link, out_cache, out_states = 12.89 * GIB, 0.97 * GIB, 4.82 * GIB
    disk, disk_cache_p, disk_g = 0.473 * GIB, 0.746 * GIB, 2.015 * GIB
    off_device_w = {"wc": w / link, "wn": w / link}
    off_device_h = {"hc": 2 * h1 * b, "hn": 2 * h1 * b}
    cache_made = 4 * h1 * b
    read = 4 * b * (s + n / 2) * h1
    load = [off_device_w, scaled(off_device_h, s / link)]
    program.longer("T_p", *load, {"wn": w / disk, "hn": 2 * s * h1 * b / disk})
    program.longer(
        "T_p",
        {"cc": cache_made * (s + 1) / out_cache, "cn": cache_made * (s + 1) / out_cache},
        scaled(off_device_h, s / out_states),
        {"cn": cache_made * (s + 1) / disk_cache_p, "hn": 2 * s * h1 * b / disk_g},
    )
    work = b * (8 * s * h1**2 + 4 * s * h1 * h2) / 21.24e12 + 4 * b * s**2 * h1 / 9.97e12
    program.longer("T_p", base=work)
    load = [off_device_w, scaled(off_device_h, 1 / link)]
    program.longer("T_g", *load, scaled(off_device_h, 1 / out_states))
    program.longer(
        "T_g", *load, {"cn": read / disk, "hn": 2 * h1 * b / disk, "wn": w / (0.95 * disk)}
    )
    program.longer("T_g", *load, {"cn": cache_made / disk_g, "hn": 2 * h1 * b / disk_g})
    host = 0.0123e12 * max(0.1, host_factor(g, h1))
    products = b * (8 * h1**2 + 4 * h1 * h2) / 4.3e12
    attended = {"cg": read / 0.079e12, "cc": read / host, "cn": read / host}
    program.longer("T_g", *load, attended, base=products)

    # bytes at their peaks, 0.8 of 15, 204 and 1,500 GB
    device, memory, flash = 0.8 * 15 * GIB, 0.8 * 204 * GIB, 0.8 * 1500 * GIB
    cache = 4 * (s + n) * h1
    buffered = {"wc": 2 * w, "wn": 2 * w}
    for tokens, working, cached in (
        (s, 18 * s * h1 + 2 * nh * s**2 + 2 * s * h2, 0.0),
        (1, 14 * h1 + 2 * h2, cache * 2 + 4 * h1 + 2 * nh * (s + n)),
    ):
        states = 2 * tokens * h1
        program.at_most(
            device - g * working,
            wg=w * layers,
            hg=states * b,
            cg=cache * b * layers + g * cached,
            hc=states * g,
            hn=states * g,
            **buffered,
        )
    program.at_most(
        memory,
        wc=w * layers + w,
        wn=w,
        cc=4 * s * h1 * b * layers,
        hc=2 * s * h1 * (b + g),
        hn=2 * s * h1 * g,
    )
    program.at_most(
        memory - g * (2 * nh * (s + n) + 2 * h1),
        wc=w * layers,
        wn=w,
        cc=cache * b * layers,
        cn=2 * cache * g,
        hc=2 * h1 * b,
        hn=4 * h1 * g,
    )
    program.at_most(flash, wn=w * layers, cn=cache * b * layers, hn=2 * s * h1 * b)
    return program.solve()


def host_factor(g: int, h1: int) -> float:
    from math import log2

    small, narrow = max(0.0, log2(64 / g)), max(0.0, log2(4096 / h1))
    return 1 + 0.0168 * small * narrow - 0.0328 * small - 0.0621 * narrow


def searched(shape: Shape) -> tuple[float, int, int, int]:
    """Search as FlexGen does: batches of 1 to 4 and then doubled, more batches until it is worse.

    Returns seconds a sequence, the batch, the batches and how many programs were solved.
    """
    best, at, solved = float("inf"), (0, 0), 0
    g = 1
    while True:
        batches, before = 1, float("inf")
        while (found := seconds_a_sequence(shape, g, batches)) is not None and found <= before:
            solved += 1
            before = found
            if found < best:
                best, at = found, (g, batches)
            batches += 1
        solved += 1
        if batches == 1:
            return best, *at, solved
        g = g + 1 if g < 4 else 2 * g
