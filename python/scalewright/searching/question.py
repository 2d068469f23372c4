"""Which search is asked for, as text that any process on any machine can read?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from scalewright import _engine


@dataclass(frozen=True)
class Question:
    """A job, the space of its plans and what is looked for there, as the engine reads them."""

    model: str
    """JSON text of the model."""
    system: str
    """JSON text of the devices and the system."""
    training: str
    """JSON text of batch, sequence, formats, optimizer."""
    memory_margin: float
    """Share of the device memory that stays free."""
    space: str
    """JSON text of the values that plan fields may take."""
    limits: str
    """JSON text of what is looked for."""

    def search(self) -> _engine.Search:
        """Return the engine's handle of this search."""
        workload, cluster = _engine.Workload(self.model), _engine.Cluster(self.system)
        job = _engine.Job(workload, cluster, self.training, self.memory_margin)
        return _engine.Search(job, self.space, self.limits)

    def to_dict(self) -> dict[str, Any]:
        """Return what is asked, field by field."""
        return {
            "model": json.loads(self.model),
            "system": json.loads(self.system),
            "training": json.loads(self.training),
            "memory_margin": self.memory_margin,
            "space": json.loads(self.space),
            "limits": json.loads(self.limits),
        }
