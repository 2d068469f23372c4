"""How much worse do predictions of published runs get without a term of the cost model?"""

from __future__ import annotations

import copy
import json
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalewright._engine import Cluster, Job, Workload, estimate, metric
from scalewright.errors import InvalidError, ScalewrightError
from scalewright.reproductions.comparing import RowComparer, checked, compared, matching, request_of
from scalewright.reproductions.machine import Machines
from scalewright.reproductions.reading import Row, read_rows, shipped_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from scalewright.reproductions.pricing import Priced
    from scalewright.reproductions.setting import Setting

Result = dict[str, Any]
_OF_A_PAPER = 12
"""Runs of a paper that are priced again, evenly from its first to its last."""
_SAME = 1e-4
"""A change of the mean error below this is none."""


@dataclass(frozen=True)
class Switch:
    """A term of the cost model and the values that leave it out."""

    name: str
    part: str
    """`device`, `level` for every fabric level, or `training`."""
    values: tuple[tuple[str, Any], ...]
    """Values by dotted field, none to take it away; what is absent stays so, but after `+`."""


_PROTOCOLS = ("low_latency", "low_latency_128", "simple", "in_network")
SWITCHES = (
    Switch("start of kernels", "device", (("launch_overhead", "0 s"), ("stream_overhead", "0 s"))),
    Switch("sustained share of the matrix peak", "device", (("matmul.efficiency.*", 1.0),)),
    Switch(
        "waves of tiles, least time of a step of depth",
        "device",
        (
            ("matmul.units", 1),
            ("matmul.depth_time", "0 s"),
            ("matmul.families.*.depth_time", "0 s"),
        ),
    ),
    Switch(
        "least time of a step of depth",
        "device",
        (("matmul.depth_time", "0 s"), ("matmul.families.*.depth_time", "0 s")),
    ),
    Switch("edges of tiles", "device", (("matmul.tile_overhead", 0.0),)),
    Switch("fill and drain of tiles", "device", (("matmul.depth_overhead", 0.0),)),
    Switch("sides of products off the grid of copies", "device", (("matmul.unaligned", 1.0),)),
    Switch(
        "throttling in long products",
        "device",
        (("matmul.throttle", 0.0), ("matmul.families.*.throttle", 0.0)),
    ),
    Switch("rates that last at the power limit", "device", (("sustained", None),)),
    Switch("sum of split products", "device", (("matmul.split_overhead", "0 s"),)),
    Switch("pace of the slowest device", "device", (("speed_spread", 0.0),)),
    Switch("compute units that collectives take", "device", (("communication_units", 0.0),)),
    Switch(
        "sustained share in attention kernels",
        "device",
        (
            ("attention.forward_efficiency", 1.0),
            ("attention.backward_efficiency", 1.0),
            ("training_attention.*.*.efficiency", 1.0),
        ),
    ),
    Switch(
        "short sequences in attention kernels",
        "device",
        (
            ("attention.score_overhead", 0.0),
            ("attention.key_overhead", 0.0),
            ("training_attention.*.*.score_overhead", 0.0),
            ("training_attention.*.*.key_overhead", 0.0),
        ),
    ),
    Switch("training's own attention kernels", "device", (("training_attention", None),)),
    Switch(
        "windows and wide heads in attention kernels",
        "device",
        (
            ("training_attention.*.*.window", "0 s"),
            ("training_attention.*.*.wide", 1.0),
            ("training_attention.*.*.skips_hidden", True),
        ),
    ),
    Switch("heads padded to systolic arrays", "device", (("attention.width_step", 1.0),)),
    Switch("sustained share of memory bandwidth", "device", (("tiers.-1.efficiency", 1.0),)),
    Switch("drain between streaming kernels", "device", (("stream_overhead", None),)),
    Switch("rate of casts into two layouts", "device", (("cast_share", 1.0),)),
    Switch("residence in caches", "device", (("tiers", -1),)),
    Switch("sustained share of links", "level", (("efficiency", 1.0), ("oversubscription", 1.0))),
    Switch(
        "start and steps of collectives",
        "level",
        (("latency", "0 s"), *((f"library.{name}.base", "0 s") for name in _PROTOCOLS)),
    ),
    Switch("host's issue of kernels", "training", (("software.host.host_time", "0 s"),)),
    Switch(
        "gathers cut by layer, and by rank on the host",
        "training",
        (
            ("software.zero.gathers_per_layer", 1.0),
            ("software.zero.gathers_again", False),
            ("software.zero.gather_rank_time", "0 s"),
            ("software.zero.gather_host_time", ["0 s", "0 s"]),
        ),
    ),
    Switch(
        "merging of parts around a ring",
        "training",
        (("+software.+context.+ring", [0.0, 0.0]), ("+software.+context.+ring_keys", [0.0, 0.0])),
    ),
    Switch("attention in narrow formats", "training", (("software.layer.attention_format", None),)),
    Switch("experts' products in turn", "training", (("software.experts.experts_in_turn", False),)),
    Switch("tiles that experts share", "training", (("software.experts.shared_tile_rows", 0.0),)),
    Switch(
        "stashes of what experts keep", "training", (("software.experts.stashes_experts", False),)
    ),
    Switch("rows of all-to-alls", "training", (("software.experts.row_time", ["0 s", "0 s"]),)),
    Switch("selection of experts", "training", (("software.experts.selections", 0.0),)),
    Switch(
        "elements one by one",
        "training",
        tuple(
            (f"software.{operator}_strided", [0.0, 0.0])
            for operator in (
                *("layer.rotary", "layer.gated_activation", "layer.addition"),
                "experts.expert_bias",
            )
        ),
    ),
    Switch(
        "what compilers do not repeat", "training", (("software.recompute.repeat_unread", True),)
    ),
    Switch(
        "tokens moved by products", "training", (("software.experts.dispatch_products", False),)
    ),
    Switch("the software's profile", "training", (("software", None),)),
    Switch("scores that go through memory", "training", (("flash_attention", True),)),
    Switch("dropout", "training", (("dropout", False),)),
    Switch("gradients added after the product", "training", (("fused_gradients", True),)),
)
# lines of the time that are left out of the sum, without pricing anything again
_LINES = (
    ("attention", ("attention.",)),
    ("state-space scans and delta rules", ("state_space.",)),
    ("normalisation and elementwise kernels", ("normalization.", "elementwise.")),
    ("embedding, head and loss", ("embedding.", "head.", "loss.")),
    ("tensor parallel traffic", ("tensor_parallel.",)),
    ("expert parallel traffic", ("expert_parallel.",)),
    ("routing of experts", ("routing.",)),
    ("gradient reduction", ("gradient_reduction", "sharded_gradients")),
    ("weight gathers", ("weight_gather", "sharded_weights")),
    ("stage to stage traffic", ("stage_to_stage",)),
    ("tied embedding sum", ("tied_embedding_sum",)),
    ("waits for the host", ("launches",)),
    ("bubble", ("bubble",)),
    ("optimizer", ("optimizer",)),
)


@dataclass(frozen=True)
class _Case:
    row: Row
    setting: Setting
    priced: Priced
    published: float
    error: float


def ablation(
    pattern: str | None = None,
    rows_path: str | Path | None = None,
    progress: Callable[[int, int], object] | None = None,
    *,
    overrides: Sequence[str | Path] = (),
) -> Result:
    """Price published runs again with each term of the cost model left out.

    Plans stay as they are: none is searched again. Of each paper at most twelve runs are taken.

    Args:
        pattern: Part of a paper's or table's name, or a glob.
        rows_path: A CSV file of results; absent: the ones that come with the package.
        progress: Called with runs done and runs in all.
        overrides: User files or directories that add to the catalog or change it.

    Returns:
        `runs`, `base` with the mean and median size of errors by paper and over papers, and
        `terms`: the same with each term left out.

    Raises:
        ScalewrightError: The file cannot be read, the pattern matches no row, or no run is priced.
    """
    found = shipped_rows() if rows_path is None else read_rows(rows_path)
    cases = _cases(matching(found, pattern), RowComparer(found, Machines(checked(overrides))))
    if not cases:
        message = "ablation: got no priced row on the speed of a step; allowed: one at least"
        raise InvalidError(message)
    errors: dict[str, list[float | None]] = {}
    for done, case in enumerate(cases):
        if progress is not None:
            progress(done, len(cases))
        for name, error in _errors_without(case):
            errors.setdefault(name, []).append(error)
    if progress is not None:
        progress(len(cases), len(cases))
    base = _summed(cases, [case.error for case in cases])
    terms = [
        {"term": name, "runs": sum(e is not None for e in own), **_summed(cases, own)}
        for name, own in errors.items()
    ]
    return {"runs": len(cases), "base": base, "terms": terms}


def sides(base: Result, term: Result) -> tuple[int, int]:
    """Return how many papers come out better and how many worse without a term."""
    changes = [
        own["mean_abs_error"] - base["by_paper"][paper]["mean_abs_error"]
        for paper, own in term["by_paper"].items()
    ]
    return sum(c < -_SAME for c in changes), sum(c > _SAME for c in changes)


def without(setting: Setting, batch: int, switch: Switch) -> Job | None:
    """Return the job of a setting with a term left out; none where that changes nothing."""
    training = {**copy.deepcopy(setting.training), "global_batch": batch}
    system, device = copy.deepcopy(setting.system), copy.deepcopy(setting.device)
    parts: list[Any] = {
        "device": [device],
        "level": system["levels"],
        "training": [training],
    }[switch.part]
    before = json.dumps([training, system, device])
    for part in parts:
        for path, value in switch.values:
            set_field(part, path.split("."), value)
    if json.dumps([training, system, device]) == before:
        return None
    cluster = {"system": system, "device": device, "devices": setting.devices}
    return Job(Workload(setting.model), Cluster(json.dumps(cluster)), json.dumps(training))


def _cases(rows: list[Row], book: RowComparer) -> list[_Case]:
    """Return the runs that are taken, each with its first row."""
    papers: dict[str, dict[int, Row]] = {}
    for row in rows:
        runs = papers.setdefault(row.text("paper"), {})
        runs.setdefault(book.run_number(row), row)
    cases: list[_Case] = []
    for runs in papers.values():
        # what cannot be priced says so quickly; searches are made for what is taken alone
        taken = 0
        for row in _evenly(list(runs.values())):
            case = _case(row, book)
            taken += case is not None
            if case is not None:
                cases.append(case)
            if taken == _OF_A_PAPER:
                break
    return cases


def _evenly(rows: list[Row]) -> Iterable[Row]:
    """Yield rows that lie evenly in the list first, then the others."""
    step = max(len(rows) // _OF_A_PAPER, 1)
    for start in range(step):
        yield from rows[start::step]


def _case(row: Row, book: RowComparer) -> _Case | None:
    result = compared(row, book)
    if result["error"] is None or result["use"] != "validate":
        return None
    if result["kind"] not in {"time", "rate"}:
        return None
    setting, priced = book.price(row)
    return _Case(row, setting, priced, result["published"], result["error"])


def _errors_without(case: _Case) -> Iterable[tuple[str, float | None]]:
    """Yield the error without each term; none where that changes nothing."""
    fields = case.priced.fields()
    plan = json.dumps(fields["plan"])
    for switch in SWITCHES:
        job = without(case.setting, case.priced.batch, switch)
        error = None if job is None else _error(case, job, estimate(job, plan))
        yield switch.name, None if error == case.error else error
    for name, starts in _LINES:
        less = sum(line["time_s"] for line in fields["time"] if line["term"].startswith(starts))
        if less <= 0.0 or less >= fields["step_time_s"]:
            yield f"line: {name}", None
            continue
        shorter = {**fields, "step_time_s": fields["step_time_s"] - less}
        yield f"line: {name}", _error(case, case.priced.job, json.dumps({"estimate": shorter}))


def _error(case: _Case, job: Job, verdict: str) -> float | None:
    answer = json.loads(verdict)
    if "estimate" not in answer:
        return None
    asked = request_of(case.row, case.setting, case.published)
    try:
        predicted = metric(job, json.dumps(answer["estimate"]), asked)
    except ScalewrightError:
        return None
    return predicted / case.published - 1.0


def _summed(cases: list[_Case], errors: list[float | None]) -> Result:
    """Sum up sizes by paper and over papers; a run without the term keeps its error."""
    papers: dict[str, list[float]] = {}
    for case, error in zip(cases, errors, strict=True):
        size = abs(case.error if error is None else error)
        papers.setdefault(case.row.text("paper"), []).append(size)
    by_paper = {
        paper: {
            "median_abs_error": statistics.median(sizes),
            "mean_abs_error": statistics.fmean(sizes),
        }
        for paper, sizes in papers.items()
    }
    means = {
        key: statistics.fmean(paper[key] for paper in by_paper.values()) if by_paper else None
        for key in ("median_abs_error", "mean_abs_error")
    }
    return {**means, "by_paper": by_paper}


def set_field(part: Any, path: list[str], value: Any) -> None:  # noqa: ANN401
    """Set a field where it is there; `*` means all members, a number a place in a list.

    A field behind `+` is made where it is not there.
    """
    name, *rest = path
    if name.startswith("+"):
        name = name.removeprefix("+")
        part.setdefault(name, {} if rest else value)
    if isinstance(part, list):
        set_field(part[int(name)], rest, value)
    elif name == "*":
        for key in part:
            set_field(part, [key, *rest], value)
    elif name == "tiers" and not rest:
        part["tiers"] = part["tiers"][value:]
    elif rest and name in part:
        set_field(part[name], rest, value)
    elif not rest and name in part and value is None:
        del part[name]
    elif not rest and name in part:
        part[name] = value
