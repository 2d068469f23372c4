"""How do predictions compare with published figures?"""

from scalewright.reproductions.comparing import run, summary

__all__ = ["run", "summary"]
