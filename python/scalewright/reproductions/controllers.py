"""How near do predictions come to what papers say of controllers and their dispatch?"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scalewright.catalog.layers import built_in_root
from scalewright.errors import InvalidError
from scalewright.planning import controller, system

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import Console

    from scalewright.planning import Controller

Result = dict[str, Any]
_MESSAGE_S = 20.2e-6
"""CPU of a call of gRPC in C++, as by default: a tuple to a shard is taken for a message."""
_T5_TOKENS = 128 * 512
"""Least batch of T5's authors (Raffel et al. 2020, section 3.1.2); table 1 prints none."""
_BASE = {"stages": 4, "micro_batches": 16, "batch": 2048, "tokens_per_s": 133_700.0}
"""Table 2's first pipeline on 128 cores, against which the others are compared."""
_SEQUENCE = 512
"""T5's; not printed. Compute and data grow with it alike, so ratios hardly depend on it."""
_WIDTH = 2048
"""Model dimension of the 3B decoder (section 5.3)."""
_BF16 = 2
_FP32 = 4
_TOKENS, _UTILIZATION, _PEAK_FLOPS = 256 * 1024, 0.565, 123e12
"""LaMDA 137B on 1,024 chips of TPU v3 (Thoppilan et al. 2022, recalled): its batch and its share of
the peak stand for those of the 64B and 136B decoders, which the paper does not print."""
_LAYERS = 64
"""LaMDA 137B; parts in which gradients may leave beside the backward pass."""


@dataclass(frozen=True)
class _Row:
    cores: int
    hosts: int
    islands: int
    stages: int
    micro_batches: int
    batch: int
    parameters: float
    gigabytes: float
    tokens_per_s: float
    variant: str


def run() -> Result:
    """Predict every row that ships.

    `error` is predicted over published, less one; where `bound` is `least` or `most`, the setting
    is not known and the prediction is that of one end of what it may be.
    """
    place = built_in_root() / "published" / "controllers" / "claims.csv"
    rows = csv.DictReader(io.StringIO(place.read_text(encoding="utf-8"), newline=""))
    return {"rows": [_compared(row) for row in rows]}


def show(result: Result, console: Console) -> None:
    """Print a comparison made by `run`."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("place", "what", "setting"):
        table.add_column(name, overflow="fold")
    for name in ("published", "predicted", "error"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in result["rows"]:
        setting = " ".join([row["bound"] or "", (row["variant"] or "").replace("_", " ")])
        known = row["predicted"] is not None
        table.add_row(
            Text(row["place"]),
            Text(row["what"]),
            Text(f"at {setting}" if row["bound"] else setting.strip()),
            f"{row['published']:.4g} {row['unit']}",
            f"{row['predicted']:.4g} {row['unit']}" if known else "",
            f"{row['error']:+.1%}" if known else "",
        )
    console.print(Text(result["rows"][0]["paper"], style="bold"))
    console.print(table)
    console.print("error = predicted / published - 1")
    for row in result["rows"]:
        if row["reason"]:
            console.print(Text(f"skipped {row['what']}: {row['reason']}"))


def _compared(row: Mapping[str, str]) -> Result:
    published = float(row["published"])
    claim: Result = {
        **{name: text or None for name, text in row.items()},
        "published": published,
        "predicted": None,
        "error": None,
        "reason": None,
        "details": {},
    }
    kind = row["kind"]
    if kind == "spmd":
        return claim | {"reason": "what SPMD loses here are its collectives, not its dispatch"}
    if kind not in _KINDS:
        message = f"kind: got '{kind}'; allowed: {', '.join(_KINDS)}, spmd"
        raise InvalidError(message)
    predicted, details = _KINDS[kind](_read(row))
    error = predicted / published - 1.0
    return claim | {"predicted": predicted, "error": error, "details": details}


def _read(row: Mapping[str, str]) -> _Row:
    def whole(name: str) -> int:
        return int(row[name] or 0)

    def real(name: str) -> float:
        return float(row[name] or 0)

    return _Row(
        cores=whole("cores"),
        hosts=whole("hosts"),
        islands=whole("islands"),
        stages=whole("stages"),
        micro_batches=whole("micro_batches"),
        batch=whole("batch"),
        parameters=real("parameters"),
        gigabytes=real("gigabytes"),
        tokens_per_s=real("tokens_per_s"),
        variant=row["variant"],
    )


def _one_by_one(row: _Row, seconds: float, name: str = "single_sequential") -> Controller:
    """A step of one computation, enqueued before the next one may be (section 5.1)."""
    costs = {} if row.variant == "message_per_host" else {"message": 0.0, "handle": _MESSAGE_S}
    each = row.cores // row.hosts
    return controller(name, [seconds], hosts=row.hosts, devices_per_host=each, costs=costs)


def _parity(row: _Row) -> tuple[float, Result]:
    found = _one_by_one(row, 1.0)
    return (found.hidden_from_s or 0.0) * 1e3, found.plain()


def _parity_growth(row: _Row) -> tuple[float, Result]:
    """Against configuration B's 16 hosts and 128 devices."""
    least, details = _parity(row)
    few, _ = _parity(replace(row, cores=128, hosts=16))
    return least / few, details


def _parity_of_steps(row: _Row) -> tuple[float, Result]:
    step = _T5_TOKENS / row.tokens_per_s
    ours, theirs = _one_by_one(row, step), _one_by_one(row, step, "multi_controller")
    details = {"pathways_step_time_s": ours.step_time_s, "jax_step_time_s": theirs.step_time_s}
    return theirs.step_time_s / ours.step_time_s, {**details, "hidden_from_s": ours.hidden_from_s}


def _pipelined(row: _Row) -> Controller:
    """GPipe's order of alike stages, all computations of a step dispatched in parallel.

    A pass takes as long as it does in the base row: 4 samples a core, layers shared by the stages.
    """
    rounds = _BASE["micro_batches"] + _BASE["stages"] - 1
    base = _BASE["batch"] * _SEQUENCE / _BASE["tokens_per_s"] / rounds
    each = base * _BASE["stages"] / row.stages
    hosts = row.hosts // row.stages or 1
    samples = row.batch // row.micro_batches
    transfers: dict[str, object] = {}
    if row.islands > 1:
        data = samples * _SEQUENCE * _WIDTH * _BF16
        transfers["between"] = data / hosts / _host_bandwidth("tpu-v3-4x4")
    program = {
        "schedule": "gpipe",
        "stages": row.stages,
        "micro_batches": row.micro_batches,
        "forward": each / 3,
        "backward": each * 2 / 3,
    }
    return controller(
        "single_parallel",
        program,
        hosts=row.hosts,
        devices_per_host=row.cores // row.hosts,
        islands=row.islands,
        costs={"message": 0.0, "handle": _MESSAGE_S},
        transfers=transfers,
    )


def _pipeline(row: _Row) -> tuple[float, Result]:
    found = _pipelined(row)
    tokens_per_s = row.batch * _SEQUENCE / found.step_time_s
    return tokens_per_s / _BASE["tokens_per_s"], found.plain()


def _islands(row: _Row) -> tuple[float, Result]:
    found = _pipelined(row)
    alone = _pipelined(replace(row, islands=1))
    return alone.step_time_s / found.step_time_s, found.plain()


def _gradient_bytes(row: _Row) -> tuple[float, Result]:
    """Each of two islands sends all gradients in fp32 to the other."""
    return 2.0 * _FP32 * row.parameters, {}


def _two_islands(row: _Row) -> tuple[float, Result]:
    """Data parallelism over two islands against one of twice the size.

    Backward passes take two thirds of a step; each host sends its share of an island's gradients.
    """
    beside = row.variant == "beside_the_backward_pass"
    chips = row.cores / 2
    flops = 6.0 * row.parameters * 1e9 * _TOKENS
    compute = flops / (chips * _PEAK_FLOPS * _UTILIZATION)
    sent = row.gigabytes * 1e9 / 2 / (row.hosts / 2)
    exchange = sent / _host_bandwidth("tpu-v3-16x16")
    parts = _LAYERS if beside else 1
    found = controller(
        "single_parallel",
        {
            "seconds": [compute / 3, *[compute * 2 / 3 / parts] * parts],
            "exchange": [0.0, *[exchange / parts] * parts],
        },
        hosts=row.hosts,
        devices_per_host=row.cores // row.hosts,
        islands=row.islands,
        costs={"message": 0.0, "handle": _MESSAGE_S},
    )
    details = {"compute_s": compute, "exchange_s": exchange, **found.plain()}
    return compute / found.step_time_s, details


def _host_bandwidth(name: str) -> float:
    """Bytes/s of a host on the data-centre network, as the catalog has them."""
    machines = system(name, 1024)
    levels = json.loads(machines.cluster.levels())
    network = next(level for level in levels if level["name"] == "dcn")
    devices = int(machines.table["devices_per_node"])
    return float(network["bandwidth"]) * float(network["efficiency"]) * devices


_KINDS: dict[str, Callable[[_Row], tuple[float, Result]]] = {
    "parity": _parity,
    "parity_growth": _parity_growth,
    "parity_of_steps": _parity_of_steps,
    "pipeline": _pipeline,
    "islands": _islands,
    "gradient_bytes": _gradient_bytes,
    "two_islands": _two_islands,
}
