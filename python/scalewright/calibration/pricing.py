"""Which times does the engine predict for measured rows while constants of a level change?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from scalewright import _engine
from scalewright.config import json_text
from scalewright.errors import InvalidError
from scalewright.reproductions.collectives.machines import refuse_crowded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy import float64, int64, uint32
    from numpy.typing import NDArray

    from scalewright.calibration.measured import Measured
    from scalewright.planning import System


class _Key(NamedTuple):
    """What the rows of a group have in common."""

    collective: str
    ranks: int
    stride: int

    @property
    def devices(self) -> int:
        """Devices that the group spans."""
        return self.stride * (self.ranks - 1) + 1


class _Group(NamedTuple):
    """Rows of one collective on one group, as the engine takes them."""

    places: NDArray[int64]
    buffer_bytes: NDArray[float64]
    ranks: NDArray[uint32]
    request: str


class Bench:
    """Measured rows on one system; the engine prices them again and again."""

    def __init__(self, rows: Sequence[Measured], system: System, *, in_place: bool = False) -> None:
        """Find out how the group of each row lies on the system.

        Raises:
            InvalidError: A group does not fit on the system, or not on so many nodes.
        """
        import numpy as np

        self.rows = list(rows)
        self.system = system
        self.in_place = in_place
        self._table = {key: value for key, value in system.table.items() if key != "sources"}
        self._device = {key: value for key, value in system.device.items() if key != "sources"}
        per_node = int(system.table["devices_per_node"])
        # racks of many chassis count as one node where the first level joins them
        joined = max(per_node, int(system.table["levels"][0].get("devices", per_node)))
        members: dict[_Key, list[int]] = {}
        for at, row in enumerate(self.rows):
            key = _Key(row.collective, row.ranks, _stride(row, per_node, joined))
            members.setdefault(key, []).append(at)
        self._groups = {
            key: _Group(
                np.array(places),
                np.array([self.rows[at].buffer_bytes for at in places], dtype=np.float64),
                np.array([key.ranks], dtype=np.uint32),
                self._request(key),
            )
            for key, places in members.items()
        }
        self.measured_s = np.array([row.time_s for row in self.rows])
        self.levels: list[dict[str, Any]] = json.loads(self._cluster(1, None).levels())

    def outermost(self) -> NDArray[int64]:
        """Return the place of the outermost level that each row's group crosses."""
        import numpy as np

        found = np.zeros(len(self.rows), dtype=np.int64)
        spans = [level["devices"] for level in self.levels[:-1]]
        for key, group in self._groups.items():
            reach = key.stride * (key.ranks - 1)
            found[group.places] = sum(span is not None and reach >= span for span in spans)
        return found

    def times(self, levels: Sequence[Mapping[str, Any]] | None = None) -> NDArray[float64]:
        """Return predicted times in seconds; the system's own levels where none are given."""
        import numpy as np

        predicted = np.empty(len(self.rows))
        clusters: dict[int, _engine.Cluster] = {}
        for key, group in self._groups.items():
            if key.devices not in clusters:
                clusters[key.devices] = self._cluster(key.devices, levels)
            predicted[group.places] = _engine.collective_times(
                clusters[key.devices], group.request, group.buffer_bytes, group.ranks
            )
        return predicted

    def _request(self, key: _Key) -> str:
        asked = {"collective": key.collective, "stride": key.stride, "in_place": self.in_place}
        return json_text("", asked)

    def _cluster(self, devices: int, levels: Sequence[Mapping[str, Any]] | None) -> _engine.Cluster:
        table = self._table if levels is None else {**self._table, "levels": list(levels)}
        parts = {"devices": devices, "device": self._device, "system": table}
        return _engine.Cluster(json_text("system", parts))


def _stride(row: Measured, per_node: int, joined: int) -> int:
    """Return the distance between neighbours of a row's group.

    Ranks fill a node before the next one begins; a run with fewer ranks on each of its nodes than
    a node has devices has them as far apart as they can be.
    """
    if row.nodes is None:
        return 1
    try:
        refuse_crowded(row.ranks, row.nodes, joined)
    except InvalidError as error:
        message = f"{row.place}: {error}"
        raise InvalidError(message) from error
    if row.nodes == 1:
        return 1
    each, left = divmod(row.ranks, row.nodes)
    if left or not 1 <= each <= per_node:
        message = (
            f"{row.place}: nodes: got {row.ranks} ranks on {row.nodes} nodes; allowed: as many "
            f"ranks on each node, at most {per_node}"
        )
        raise InvalidError(message)
    return max(per_node // each, 1)
