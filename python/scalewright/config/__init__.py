"""How do a user's files and objects become the JSON text that the engine reads?"""

from scalewright.config.caller_names import named_as, renamed
from scalewright.config.json_text import json_text
from scalewright.config.kinds import (
    need,
    need_count,
    need_listed,
    need_number,
    need_places,
    need_progress,
    need_table,
    need_tables,
)
from scalewright.config.plan import FIELDS, Plan, completed, plan_fields, schedule_rules
from scalewright.config.sizes import buffer_sizes
from scalewright.config.space import DTYPE, pinned_fields, space
from scalewright.config.training import Training

__all__ = [
    "DTYPE",
    "FIELDS",
    "Plan",
    "Training",
    "buffer_sizes",
    "completed",
    "json_text",
    "named_as",
    "need",
    "need_count",
    "need_listed",
    "need_number",
    "need_places",
    "need_progress",
    "need_table",
    "need_tables",
    "pinned_fields",
    "plan_fields",
    "renamed",
    "schedule_rules",
    "space",
]
