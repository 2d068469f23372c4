"""Which kinds of kernels does the book hold?"""

from scalewright.reproductions.kernels.attention import ATTENTION
from scalewright.reproductions.kernels.attention_training import ATTENTION_TRAINING
from scalewright.reproductions.kernels.gemm import GEMM
from scalewright.reproductions.kernels.moe import MOE
from scalewright.reproductions.kernels.spelt_freely import ATTENTION_FREE, MOE_FREE

KINDS = (GEMM, ATTENTION, ATTENTION_TRAINING, MOE, ATTENTION_FREE, MOE_FREE)
"""Every kind; a header belongs to the first whose columns it has."""
