"""How do jobs and answers travel to other processes, where the engine's handles cannot go?"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class PickledByFields:
    """A data class that is pickled and copied by its fields; what follows is made again."""

    def __getstate__(self: DataclassInstance) -> dict[str, Any]:
        """Return the fields without handles and other results that are kept beside them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
