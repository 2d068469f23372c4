"""Which published results of placed data ship?"""

from __future__ import annotations

from functools import partial

from scalewright.reproductions import claims

read = partial(claims.read, "placement")
"""Returns the rows of a file of `published/placement` by its name, in its order."""
