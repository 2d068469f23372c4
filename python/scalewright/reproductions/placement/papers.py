"""Which papers on placing data over memory are compared, and what agrees in each?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from scalewright.reproductions.placement.dlrm import dlrm
from scalewright.reproductions.placement.experts import experts
from scalewright.reproductions.placement.flexgen import flexgen
from scalewright.reproductions.placement.m2cache import m2cache
from scalewright.reproductions.placement.mrm import mrm
from scalewright.reproductions.placement.offloads import offloads
from scalewright.reproductions.placement.sn40l import sn40l

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Paper(NamedTuple):
    """A paper whose rows are a file of `published/placement`."""

    table: str
    """Name of the file, without its ending."""
    title: str
    predict: Callable[[], Iterator[dict[str, Any]]]
    verdict: str
    """What agrees and what does not, in a sentence or two."""


PAPERS = (
    Paper(
        "sn40l",
        "SN40L: experts that are whole models, near and far memory",
        sn40l,
        "Copies come out within 5% from the rates that the paper states, batches of 8 with 20 "
        "tokens within 4%, counts of experts within 16%: some memory is kept free. Long outputs "
        "gain less than measured, and Llama3.1-8B runs at half the rate: collectives of SN40L, "
        "which stream between sockets, are priced as steps of their own.",
    ),
    Paper(
        "flexgen",
        "FlexGen: blocks of generated text on one T4, its host and flash",
        flexgen,
        "By FlexGen's own constants OPT-30B comes out within 3% and 19%, OPT-175B at a quarter: "
        "its fitted disk rate of 0.47 GiB/s is far below the 2 GB/s that it states. By the "
        "catalog's rates OPT-175B is within 17% and OPT-6.7B within 16%, OPT-30B 2.2 to 2.4 times "
        "too fast: the host attends to 12 GB/s where its memory gives 102, and T4 multiplies at "
        "21 TFLOP/s where the catalog takes 30. OPT-6.7B ran without overlap.",
    ),
    Paper(
        "experts",
        "Mixtures of experts: dynamic gating, buffers of experts",
        experts,
        "The language model gains a quarter more than the best measured, about what slots over "
        "tokens say; the translation model twice as much: its batches are not printed and its "
        "dynamic gating is priced without sorting. Activations and buffers come out within 16%.",
    ),
    Paper(
        "dlrm",
        "Embedding tables on ZionEX",
        dlrm,
        "What fits agrees, down to the terabytes recalled of the paper. Rates of samples need "
        "look-ups that are not printed; collectives of 2021 over RoCE reached a third of what "
        "the links carry, which nothing here explains.",
    ),
    Paper(
        "m2cache",
        "M2Cache: neurons in HBM, layers in DRAM, the model on flash",
        m2cache,
        "Sizes and the bound of the link agree within 6%. The gain over the baseline is not "
        "predicted: it rests on shares of neurons and on flash that the abstract does not print.",
    ),
    Paper(
        "mrm",
        "Managed-retention memory: writes of weights and KV cache",
        mrm,
        "Writes of a cell and barriers are arithmetic and agree; the paper argues with ranges, so "
        "its cells are assumptions here. The wear of KV caches rules out cells as sold, not those "
        "of the laboratory.",
    ),
    Paper(
        "patrickstar",
        "PatrickStar: chunks that move between devices and hosts",
        partial(offloads, "patrickstar"),
        "With the shares of memory and the chunk sizes of its scripts, the largest models of "
        "both nodes come out 12% and 16% low, so that four of its runs are refused; 32 A100 "
        "hold more than it says. Eight devices run 16% to 58% faster than measured, single "
        "ones up to 2.6 times where chunks move: neither its hooks nor slow copies are "
        "priced. DeepSpeed stopped at half of what its homes hold, and on 8 V100 those hold "
        "15B too.",
    ),
    Paper(
        "zero_offload",
        "ZeRO-Offload: optimizer state and update on the host",
        partial(offloads, "zero_offload"),
        "Both sizes fit as claimed: weights of 15B fill the V100, state of 117B the host of a "
        "DGX-2. 10B run at twice the rate of the abstract: kernels of 2020 on V100 were "
        "slower than the catalog's, and how the authors count operations is not known.",
    ),
    Paper(
        "zero_infinity",
        "ZeRO-Infinity: everything on hosts and drives",
        partial(offloads, "zero_infinity"),
        "A DGX-2 holds 1.9T and 32 of them 58T, bounded by drives, above the claims of 1T and "
        "32T. Rates come out 1.3 to 1.8 times as high as printed (the paper's V100 peaks at "
        "70 TFLOP/s, the catalog's above 85); a device of 512 does more than one of 64, as in "
        "the paper, since drives and updates are divided by more. The formulas of section 4 "
        "are met.",
    ),
    Paper(
        "l2l_largest",
        "L2L: the largest model of its machine",
        partial(offloads, "l2l_largest"),
        "16 bytes a parameter in fp16 with Adam hold 32B; the claim of 50B implies some 10.",
    ),
    Paper(
        "m6",
        "M6-10T: layers that share weights, some of them on the host",
        partial(offloads, "m6"),
        "Layers that share weights fit with room to spare. All 10T need 1.25 TB a node with "
        "Adafactor; nodes of 512 GB, which are taken here, hold 59% of them. Days cannot be "
        "compared: steps are not printed.",
    ),
    Paper(
        "weight_streaming",
        "CS-2: weights that stream from MemoryX",
        partial(offloads, "weight_streaming"),
        "Minutes, as said. The memory of 200 H100 reads as many bytes some 4,500 times as "
        "fast, but holds 8T of them at most.",
    ),
)
"""In the order in which they are shown."""
