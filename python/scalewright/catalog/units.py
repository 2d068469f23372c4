"""Which fields of a device or a system are text with a unit, and where is a bare number instead?

A number without a unit would count in the engine's base unit: `bandwidth = 3.35` would be 3.35
bytes a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.catalog.toml_file import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scalewright.catalog.toml_file import Table

_BYTES = "80 GiB"
_TIME = "4.5 us"
_DATA_RATE = "3.35 TB/s"
_COMPUTE_RATE = "312 TFLOP/s"
_POWER = "700 W"
_MONEY = "30000 USD"
_MOVING = "3.9 pJ/bit"
_BY_EXAMPLE: dict[str, tuple[str, ...]] = {
    _BYTES: ("capacity", "memory", "reserved_memory", "segment"),
    _TIME: (
        *("base", "latency", "reconfiguration", "retention", "round_trip"),
        *("launch_overhead", "stream_overhead", "split_overhead", "overhead", "cast_overhead"),
        *("depth_time", "thin_depth_time", "throttle_time"),
        *("launch", "tiled_launch", "vector_launch", "tiled_block", "vector_block"),
        *("tiled_key", "tiled_row", "vector_key", "element", "head", "narrow", "split"),
        *("host_time", "expert_host_time", "routing_host_time", "tensor_host_time", "row_time"),
        *("gather_rank_time", "gather_host_time", "handover_time", "layer_update_time"),
        *("window", "cast_window", "expert", "routing", "choice"),
    ),
    _DATA_RATE: (
        *("bandwidth", "read_bandwidth", "write_bandwidth", "link_bandwidth", "memory_bandwidth"),
        "unit_bandwidth",
    ),
    _COMPUTE_RATE: ("vector",),
    _POWER: ("peak", "idle", "node_overhead_power"),
    _MONEY: ("price", "node", "rent_per_device_hour", "energy_per_kwh"),
    _MOVING: ("read_energy", "write_energy"),
    "0.1 W/GB": ("keeping_power",),
    "826 mm2": ("die_area",),
}
UNITS: dict[str, str] = {
    field: example for example, fields in _BY_EXAMPLE.items() for field in fields
}
"""An example of the text by the name of the field, wherever in the file it stands."""
BY_FORMAT = ("matrix", "sustained")
"""Tables that list a compute rate for each number format."""
OF_TABLE = {
    ("tiers", "price"): "4 USD/GB",
    ("wide_area", "window"): "8 MB",
    ("single_hop", "addition"): _DATA_RATE,
}
"""The same of fields that mean something else outside a table of this name."""


def bare_numbers(table: Table) -> Iterator[tuple[str, object, str]]:
    """List numbers that stand where a unit is needed: path, value, an example of what is allowed.

    Zero is the same in every unit.
    """
    for path, value in leaves(table):
        if isinstance(value, int | float) and not isinstance(value, bool) and value != 0:
            example = _example(path.split("."))
            if example is not None:
                yield path, value, example


def _example(path: list[str]) -> str | None:
    """Return how the text of a field may read; none where it is a plain number."""
    if any(table in BY_FORMAT for table in path[:-1]):
        return _COMPUTE_RATE
    inside = (OF_TABLE.get((table, path[-1])) for table in path[:-1])
    return next(filter(None, inside), UNITS.get(path[-1]))
