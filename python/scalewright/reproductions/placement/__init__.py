"""How near do predictions come to what papers say of data placed over tiers of memory?"""

from scalewright.reproductions.placement.comparing import run
from scalewright.reproductions.placement.showing import show

__all__ = ["run", "show"]
