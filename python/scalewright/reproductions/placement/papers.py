"""Which papers on placing data over memory are compared, and what agrees in each?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from scalewright.reproductions.placement.dlrm import dlrm
from scalewright.reproductions.placement.experts import experts
from scalewright.reproductions.placement.flexgen import flexgen
from scalewright.reproductions.placement.m2cache import m2cache
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
        "catalog's rates OPT-175B is within 15% and OPT-6.7B within 22%, OPT-30B 2.5 to 2.7 times "
        "too fast: the host attends to 12 GB/s where its memory gives 102, and T4 multiplies at "
        "21 TFLOP/s where the catalog takes 39. OPT-6.7B ran without overlap.",
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
)
"""In the order in which they are shown."""
