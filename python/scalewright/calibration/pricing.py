"""Which times does the engine predict for measured rows while constants of a level change?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.config import json_text
from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy import float64, int64
    from numpy.typing import NDArray

    from scalewright.calibration.measured import Measured
    from scalewright.planning import System


class Bench:
    """Measured rows on one system; the engine prices them again and again."""

    def __init__(self, rows: Sequence[Measured], system: System) -> None:
        """Find out how the group of each row lies on the system.

        Raises:
            InvalidError: A group does not fit on the system, or not on so many nodes.
        """
        import numpy as np

        self.rows = list(rows)
        self.system = system
        self._table = {key: value for key, value in system.table.items() if key != "sources"}
        self._device = dict(system.device)
        self._groups: dict[tuple[int, int, str], list[int]] = {}
        per_node = int(system.table["devices_per_node"])
        for at, row in enumerate(self.rows):
            key = _stride(row, per_node), row.ranks, row.collective
            self._groups.setdefault(key, []).append(at)
        self._places = {key: np.array(found) for key, found in self._groups.items()}
        self._sizes = {
            key: np.array([self.rows[at].buffer_bytes for at in found], dtype=np.float64)
            for key, found in self._groups.items()
        }
        self.measured_s = np.array([row.time_s for row in self.rows])
        self.levels: list[dict[str, Any]] = json.loads(self._cluster(1, None).levels())

    def outermost(self) -> NDArray[int64]:
        """Return the place of the outermost level that each row's group crosses."""
        import numpy as np

        found = np.zeros(len(self.rows), dtype=np.int64)
        for key, places in self._places.items():
            stride, ranks, _ = key
            spans = [level["devices"] for level in self.levels[:-1]]
            found[places] = sum(
                devices is not None and stride * (ranks - 1) >= devices for devices in spans
            )
        return found

    def times(self, levels: Sequence[Mapping[str, Any]] | None = None) -> NDArray[float64]:
        """Return predicted times in seconds; the system's own levels where none are given."""
        import numpy as np

        predicted = np.empty(len(self.rows))
        clusters: dict[int, _engine.Cluster] = {}
        for key, places in self._places.items():
            stride, ranks, collective = key
            devices = stride * ranks
            if devices not in clusters:
                clusters[devices] = self._cluster(devices, levels)
            predicted[places] = _engine.collective_times(
                clusters[devices], collective, (stride, ranks), self._sizes[key]
            )
        return predicted

    def _cluster(self, devices: int, levels: Sequence[Mapping[str, Any]] | None) -> _engine.Cluster:
        table = self._table if levels is None else {**self._table, "levels": list(levels)}
        parts = {"devices": devices, "device": self._device, "system": table}
        return _engine.Cluster(json_text("system", parts))


def _stride(row: Measured, per_node: int) -> int:
    """Return the distance between neighbours of a row's group.

    Ranks fill a node before the next one begins; a run with fewer ranks on each of its nodes than
    a node has devices has them as far apart as they can be.
    """
    if row.nodes is None or row.nodes == 1:
        return 1
    each, left = divmod(row.ranks, row.nodes)
    if left or not 1 <= each <= per_node:
        message = (
            f"{row.place}: nodes: got {row.ranks} ranks on {row.nodes} nodes; allowed: as many "
            f"ranks on each node, at most {per_node}"
        )
        raise InvalidError(message)
    return max(per_node // each, 1)
