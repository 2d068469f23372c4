"""Which papers on placing data over memory are compared, and what agrees in each?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from scalewright.reproductions.placement.flexgen import flexgen
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
)
"""In the order in which they are shown."""
