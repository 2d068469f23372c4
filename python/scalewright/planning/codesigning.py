"""Which machines suit a job best: the best plan on every variant of a grid, under a budget?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from scalewright import _engine
from scalewright.catalog import load_device
from scalewright.catalog.money import dollars
from scalewright.config import json_text, named_as, need, need_count, need_progress, space
from scalewright.errors import InvalidError
from scalewright.planning.inputs import System
from scalewright.planning.inputs import system as read_system
from scalewright.planning.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from scalewright.config import Training
    from scalewright.planning.inputs import Model

MEASURES = ("time", "memory", "energy", "dollars", "devices", "watts", "capital", "mm2")
"""What a variant is judged by: of a step and its fullest rank, then of the machines."""
FATES = ("planned", "unfit", "over budget", "excluded by a bound")
"""What becomes of a variant."""

_MOST_VARIANTS = 1_000_000

Value: TypeAlias = "float | str | Mapping[str, object]"
"""A factor, a value with its unit, or one of them with what it costs."""


@dataclass(frozen=True, eq=False)
class Codesign:
    """The best variants of a grid of machines, the front over them, and what became of all.

    Attributes:
        job: The workload, systems and training that were searched for.
        values: Every field that the engine gives, as in `to_dict`.
        axes: What varies: names and values, the slowest first: names of systems, counts of devices,
            and of a constant a table with its `factor` or `value`, and what it costs.
        fates: What became of each variant, a place in `FATES`, in the order of the axes.
        measures: A row for each variant, a column for each of `MEASURES`; infinite where not known.
        systems: The systems of the first axis, in its order.
    """

    job: Job
    values: Mapping[str, Any]
    axes: tuple[tuple[str, tuple[str | int | Mapping[str, object], ...]], ...]
    fates: NDArray[np.uint8]
    measures: NDArray[np.float64]
    systems: tuple[System, ...]

    @property
    def best(self) -> list[dict[str, Any]]:
        """Return the best variants with their plans, best first."""
        return self.values["best"]

    @property
    def front(self) -> list[dict[str, Any]]:
        """Return the variants that no other beats in all measures of the front."""
        return self.values["front"]

    @property
    def feasible(self) -> bool:
        """Say whether any variant within the budget has a plan that fits."""
        return bool(self.values["best"])

    def labels(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return the axes with their values as text."""
        return [(name, tuple(_label(value) for value in values)) for name, values in self.axes]

    def column(self, measure: str) -> NDArray[np.float64]:
        """Return one of `MEASURES` for every variant, an axis for each of `axes`.

        Raises:
            InvalidError: There is no such measure.
        """
        if measure not in MEASURES:
            message = f"measure: got {measure!r:.60}; allowed: {', '.join(MEASURES)}"
            raise InvalidError(message)
        shape = tuple(len(values) for _, values in self.axes)
        return self.measures[:, MEASURES.index(measure)].reshape(shape)

    def to_dict(self) -> dict[str, Any]:
        """Return the stamped answer, ready for JSON."""
        axes = [{"name": name, "values": list(values)} for name, values in self.axes]
        return {**self.job.stamp(), "axes": axes, **self.values}


def codesign(
    model: Model,
    system: System,
    training: Training,
    *,
    devices: Sequence[int] = (),
    systems: Sequence[System | str] = (),
    chips: Sequence[str] = (),
    constants: Mapping[str, Sequence[Value]] | None = None,
    budget: Mapping[str, object] | None = None,
    objective: str = "time",
    top: int = 10,
    front: Sequence[str] = (),
    method: str = "exhaustive",
    fix: Mapping[str, object] | None = None,
    memory_margin: float = 0.0,
    progress: Callable[[int, int], object] | None = None,
) -> Codesign:
    """Find the best plan on every variant of a grid of machines, and the best variants.

    Args:
        model: What is trained.
        system: The machines to start from.
        training: Batch, sequence, formats, optimizer.
        devices: Device counts to try; none for the one of `system`.
        systems: Other systems to try, or their names.
        chips: Catalog devices to try in the place of the system's own. The node is then priced by
            its devices alone, where their price is known.
        constants: Values to try by the name of a constant (`scalewright.constants`), which stands
            for all that it begins, `*` for any part: a number is a factor, text a value with its
            unit (`"120 GiB"`; of a rate the sustained one), a table has `factor` or `value` and
            what a device then has more: `price_usd`, `power_w`, `area_mm2`; `price_factor`
            multiplies the price of a node. What another value costs is otherwise not known, and
            prices stay. A share of a rate is at most 1.
        budget: What the machines may be at most: `capital` (dollars of the nodes), `watts` (devices
            and nodes at their limits), `mm2` (dies), `devices`; numbers or text with a unit. What
            is beyond is not searched.
        objective: What the best plan has least of, and the best variant: `time`, `memory`,
            `energy`, `dollars` (of a step) or `devices`.
        top: How many variants to return with their plans.
        front: What the front over variants trades, of `MEASURES`; each variant stands with its
            best plan.
        method: `exhaustive` searches every variant within the budget; `bounds` leaves out those
            that cannot be among the `top`, and has no front.
        fix: A value or a list of allowed values by plan field.
        memory_margin: Share of the device memory that must stay free.
        progress: Called with the variants done and the variants in all.

    Raises:
        ScalewrightError: A value is wrong, a name means no constant, the grid is empty or has more
            than a million variants, or a budget is below what any variant needs.
    """
    grid: dict[str, object] = {
        "devices": devices,
        "systems": systems,
        "chips": chips,
        "constants": {} if constants is None else constants,
    }
    asked: dict[str, object] = {
        "budget": {} if budget is None else budget,
        "objective": objective,
        "top": top,
        "front": front,
        "method": method,
    }
    job = Job(model, system, training, memory_margin)
    return codesign_job(job, grid, asked, {} if fix is None else fix, progress)


def codesign_job(
    job: Job,
    grid: Mapping[str, Any],
    asked: Mapping[str, Any],
    fix: Mapping[str, object],
    progress: Callable[[int, int], object] | None = None,
) -> Codesign:
    """Search a grid for a job; see `codesign`."""
    need_progress(progress)
    counts = [need_count("devices", count) for count in _counted("devices", grid["devices"])]
    machines = _machines(job, grid, counts)
    need("constants", grid["constants"], Mapping, "values by the name of a constant")
    constants: Mapping[str, object] = grid["constants"]
    steps = {str(name): _steps(str(name), values) for name, values in constants.items()}
    _refuse_large(len(machines), len(counts), *(len(listed) for listed in steps.values()))
    need("budget", asked["budget"], Mapping, "limits by name, as watts")
    wanted: dict[str, object] = {
        **asked,
        "budget": dict(asked["budget"]),
        "front": _listed("front", asked["front"]),
        "grid": {
            "devices": counts,
            "axes": [{"constant": name, "steps": listed} for name, listed in steps.items()],
        },
    }
    paths = {
        rf"grid\.axes\[{place}\]\.steps(\[\d+\])": rf"constants.{name}\1"
        for place, name in enumerate(steps)
    }
    paths[r"space\."] = "fix."
    clusters = [one.cluster for one in machines]
    for one in machines:
        _need_shares(one, steps)
    with named_as(paths):
        texts = json_text("fix", space(fix)), json_text("", wanted)
        answer, fates, measures = _engine.codesign(job.handle, clusters, *texts, progress=progress)
    axes = [
        ("system", tuple(one.name for one in machines)),
        ("devices", tuple(counts or [job.system.devices])),
        *((name, tuple(listed)) for name, listed in steps.items()),
    ]
    return Codesign(job, json.loads(answer), tuple(axes), fates, measures, tuple(machines))


def _machines(job: Job, grid: Mapping[str, Any], counts: Sequence[int]) -> list[System]:
    """Return the job's own system, with other devices, and other systems."""
    own = job.system
    count = counts[0] if counts else own.devices
    found = [own, *(_with_chip(own, chip) for chip in _listed("chips", grid["chips"]))]
    for other in _listed("systems", grid["systems"]):
        need("systems", other, (System, str), "scalewright.system(...), or catalog names")
        if isinstance(other, str):
            found.append(read_system(other, count, overrides=own.overrides))
        else:
            found.append(cast("System", other))
    seen: list[str] = []
    for one in found:
        if one.name in seen:
            allowed = "each once, beside the job's own"
            message = f"systems: got {one.name!r:.60} twice; allowed: {allowed}"
            raise InvalidError(message)
        seen.append(one.name)
    return found


def _with_chip(base: System, chip: object) -> System:
    """Return the system with other devices, its node dearer or cheaper by what these are.

    Where the price of a node or of a device is not known, or the system is rented, what is paid is
    that of the devices alone.
    """
    need("chips", chip, str, "catalog names of devices")
    places: tuple[str | Path, ...] = base.overrides
    device = load_device(cast("str", chip), places)
    name = f"{base.name} with {device['name']}"
    price: dict[str, object] = dict(base.table.get("price", {}))
    for bought in ("node", "rent_per_device_hour"):
        price.pop(bought, None)
    if (node := _node_with(base, device)) is not None:
        price["node"] = node
    table = {**base.table, "device": device["name"], "name": name, "price": price}
    return System(name, base.devices, table, device, base.overridden, base.overrides)


def _node_with(base: System, device: Mapping[str, Any]) -> str | None:
    """Return the price of a system's node with other devices in it; none where it is not known."""
    price = cast("Mapping[str, Any]", base.table.get("price", {}))
    known = (price.get("node"), base.device.get("price"), device.get("price"))
    if "rent_per_device_hour" in price or None in known:
        return None
    node, own, other = (dollars(cast("str", text)) for text in known)
    each = cast("int", base.table["devices_per_node"])
    beside = node - each * own
    return f"{beside + each * other:.10g} USD" if beside > 0.0 else None


def _steps(name: str, values: object) -> list[dict[str, object]]:
    """Return the values of a constant as the engine reads them."""
    listed = _counted(f"constants.{name}", values)
    steps: dict[str, dict[str, object]] = {}
    for value in listed:
        step = _step(name, value)
        key = repr(sorted(step.items()))
        if key in steps:
            message = f"constants.{name}: got {_label(step):.60} twice; allowed: each value once"
            raise InvalidError(message)
        steps[key] = step
    return list(steps.values())


def _need_shares(machines: System, steps: Mapping[str, Sequence[Mapping[str, object]]]) -> None:
    """Refuse values that would make a share of a rate more than 1, at which the engine ends it.

    Raises:
        InvalidError: There is one.
    """
    if not steps:
        return
    for constant in json.loads(_engine.constants(machines.cluster)):
        # what lasts of a peak is a share of it too, though the engine holds it as a ratio
        if constant["unit"] != "share" or constant["kind"] not in ("share", "ratio"):
            continue
        for name, listed in steps.items():
            if _stands_for(name, constant["name"]):
                for step in listed:
                    _need_share(name, step, constant)


def _need_share(name: str, step: Mapping[str, object], constant: Mapping[str, Any]) -> None:
    held: float = constant["value"]
    given = step.get("value")
    try:
        made = float(str(step.get("factor"))) * held if given is None else float(str(given))
    except ValueError:
        return  # the engine says what is wrong with it
    if made > 1.0 + 1e-9:
        message = (
            f"constants.{name}: got {_label(step):.60}, with which {constant['name']} would be "
            f"{made:.4g}; allowed: up to {1 / held:.4g} times the catalog's {held:.4g}, as a share "
            "is at most 1"
        )
        raise InvalidError(message)


def _stands_for(name: str, constant: str) -> bool:
    """Say whether a dotted name begins a constant's, `*` standing for any part."""
    parts, own = name.split("."), constant.split(".")
    pairs = zip(parts, own, strict=False)
    return len(parts) <= len(own) and all(part in ("*", held) for part, held in pairs)


def _refuse_large(*lengths: int) -> None:
    """Refuse a grid of more variants than may be searched, before its axes are compared."""
    variants = prod(max(length, 1) for length in lengths)
    if variants > _MOST_VARIANTS:
        message = f"grid: got {variants} variants; allowed: 1 to {_MOST_VARIANTS}"
        raise InvalidError(message)


def _counted(field: str, values: object) -> list[object]:
    """Return a list that is no longer than a grid may be.

    Raises:
        InvalidError: It is longer, or no list.
    """
    listed = list(islice(_walked(field, values), _MOST_VARIANTS + 1))
    if len(listed) > _MOST_VARIANTS:
        message = f"{field}: got more than {_MOST_VARIANTS} values; allowed: {_MOST_VARIANTS}"
        raise InvalidError(message + " variants of a grid at most")
    return listed


def _step(name: str, value: object) -> dict[str, object]:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    if isinstance(value, str):
        return {"value": value}
    allowed = "factors, values with a unit, or tables of one and its costs"
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        message = f"constants.{name}: got {value!r:.60}; allowed: {allowed}"
        raise InvalidError(message)
    return {"factor": float(cast("float", value))}


def _label(step: str | int | Mapping[str, object]) -> str:
    if not isinstance(step, Mapping):
        return step if isinstance(step, str) else f"{step:,}"
    value = step.get("value")
    return f"x {step.get('factor'):g}" if value is None else str(value)


def _listed(name: str, values: object) -> list[object]:
    return list(_walked(name, values))


def _walked(name: str, values: object) -> Iterator[object]:
    """Walk through a list; refuse a lone text, which would count letter by letter."""
    if isinstance(values, (str, Mapping)) or not hasattr(values, "__iter__"):
        message = f"{name}: got {values!r:.60}; allowed: a list"
        raise InvalidError(message)
    return iter(cast("Sequence[object]", values))
