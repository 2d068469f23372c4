"""How near do predicted kernels come to measured ones, by device, format and kind?"""

from scalewright.reproductions.kernels.comparing import run, summary
from scalewright.reproductions.kernels.rows import holds_kernels
from scalewright.reproductions.kernels.showing import markdown, show

__all__ = ["holds_kernels", "markdown", "run", "show", "summary"]
