"""How do predictions compare with published figures?"""

from scalewright.reproductions.comparing import run, summary
from scalewright.reproductions.showing import show

__all__ = ["run", "show", "summary"]
