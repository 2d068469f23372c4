"""Which kinds of kernels does the book hold?"""

from scalewright.reproductions.kernels.gemm import GEMM

KINDS = (GEMM,)
"""Every kind; a header belongs to the first whose columns it has."""
