"""Which devices, systems and models are known, and what do their files say?"""

from scalewright.catalog.loading import (
    Entry,
    catalog_hash,
    load_device,
    load_entry,
    load_model,
    load_system,
    names,
)
from scalewright.catalog.spelling import Spelling, spellings

__all__ = [
    "Entry",
    "Spelling",
    "catalog_hash",
    "load_device",
    "load_entry",
    "load_model",
    "load_system",
    "names",
    "spellings",
]
