"""Which devices, systems and models are known, and what do their files say?"""

from scalewright.catalog.loading import (
    Entry,
    catalog_hash,
    load_device,
    load_entry,
    load_model,
    load_system,
    names,
    spelt_names,
)
from scalewright.catalog.model_spelling import ModelSpelling, model_spellings
from scalewright.catalog.software_profiles import software_names, with_software
from scalewright.catalog.spelling import (
    Spelling,
    is_usual_server,
    spellings,
    usual_system,
    usual_words,
)
from scalewright.catalog.technologies import technologies, with_costs

__all__ = [
    "Entry",
    "ModelSpelling",
    "Spelling",
    "catalog_hash",
    "is_usual_server",
    "load_device",
    "load_entry",
    "load_model",
    "load_system",
    "model_spellings",
    "names",
    "software_names",
    "spellings",
    "spelt_names",
    "technologies",
    "usual_system",
    "usual_words",
    "with_costs",
    "with_software",
]
