"""What is asked: which model is trained how on which machines, and what stamps the answer?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from scalewright import _engine
from scalewright.catalog import with_software
from scalewright.config import Training, json_text, need, need_number, need_places
from scalewright.errors import InvalidError
from scalewright.planning.inputs import Model, System
from scalewright.planning.pickling import PickledByFields
from scalewright.planning.stamp import stamp
from scalewright.searching import Question

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Job(PickledByFields):
    """What stays the same while plans vary.

    Attributes:
        model: The workload.
        system: The cluster.
        training: What is trained on it: batch, sequence, formats.
        memory_margin: Share of the device memory that a plan must leave free.
    """

    model: Model
    system: System
    training: Training
    memory_margin: float = 0.0

    def __post_init__(self) -> None:
        """Refuse parts of the wrong kind where they are given."""
        need("model", self.model, Model, "what scalewright.model(...) returns")
        need("system", self.system, System, "what scalewright.system(...) returns")
        need("training", self.training, Training, "a scalewright.Training(...)")
        margin = need_number("memory_margin", self.memory_margin, "a share from 0 to 1")
        object.__setattr__(self, "memory_margin", margin)

    def with_software(self, name: str, *, overrides: Sequence[str | Path] = ()) -> Job:
        """Return the same job as a named training program runs it (`docs/software.md`).

        Args:
            name: A software profile of the catalog, as `torchtitan-eager`.
            overrides: User files or directories that add profiles or change them.

        Raises:
            UnknownNameError: No profile has this name; says which come nearest.
            ScalewrightError: A file or a field is wrong.
        """
        need("software", name, str, "the name of a software profile")
        need_places(overrides)
        if self.training.software is not None and self.training.software.get("name"):
            ran = self.training.software["name"]
            message = (
                f"software: got {name} on a job of {ran}; allowed: {ran}+{name} on a plain job"
            )
            raise InvalidError(message)
        fields = self.training.to_dict()
        fields, device = with_software(name, fields, self.system.device, overrides)
        training = Training(**fields)  # pyright: ignore[reportArgumentType]
        return replace(self, training=training, system=replace(self.system, device=device))

    @cached_property
    def handle(self) -> _engine.Job:
        """Return the engine's handle; the engine checks that the parts fit together."""
        training = json_text("training", self.training.to_dict())
        return _engine.Job(self.model.workload, self.system.cluster, training, self.memory_margin)

    def question(self, space: str, limits: str) -> Question:
        """Return the search of a space for this job; both are JSON texts."""
        training = json_text("training", self.training.to_dict())
        parts = self.model.text, self.system.text, training, self.memory_margin
        return Question(*parts, space, limits)

    def to_dict(self) -> dict[str, object]:
        """Return what was asked."""
        table, device = self.system.table, self.system.device
        return {
            "model": self.model.name,
            "parameters": self.model.parameters()["total"],
            "system": self.system.name,
            "system_title": table.get("title", self.system.name),
            "device": device["name"],
            "device_title": device.get("title", device["name"]),
            "devices": self.system.devices,
            "devices_per_node": table.get("devices_per_node"),
            "training": self.training.to_dict(),
            "memory_margin": self.memory_margin,
        }

    def stamp(self) -> dict[str, object]:
        """Return what the answer rests on."""
        calibration = self.system.device.get("calibration", {})
        files = dict.fromkeys([*self.system.overrides, *self.model.overrides])
        return {
            **stamp(tuple(files)),
            "overridden_constants": [*self.model.overridden, *self.system.overridden],
            "calibrated": calibration.get("measured", False),
            "calibration_basis": calibration.get("basis", ""),
            **({"left_out": list(self.model.left_out)} if self.model.left_out else {}),
            "job": self.to_dict(),
        }
