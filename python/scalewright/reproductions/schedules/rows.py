"""Which published results of schedules ship?"""

from __future__ import annotations

from functools import partial

from scalewright.reproductions import claims

read = partial(claims.read, "schedules")
"""Returns the rows of a file of `published/schedules` by its name, in its order."""
