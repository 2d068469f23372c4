"""How near do predicted collectives come to measured ones?"""

from scalewright.reproductions.collectives.comparing import run, summary
from scalewright.reproductions.collectives.rows import holds_collectives
from scalewright.reproductions.collectives.showing import show

__all__ = ["holds_collectives", "run", "show", "summary"]
