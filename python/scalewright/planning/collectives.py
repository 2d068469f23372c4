"""How long does a collective take on a group of a system's devices?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright import _engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy import float64
    from numpy.typing import ArrayLike, NDArray

    from scalewright.planning.inputs import System


def collective(
    name: str,
    buffer_bytes: ArrayLike,
    system: System,
    devices: int | None = None,
    *,
    stride: int = 1,
    progress: Callable[[int, int], Any] | None = None,
) -> NDArray[float64]:
    """Return the times in seconds of a collective, one for each buffer size.

    Args:
        name: `all_reduce`, `reduce_scatter`, `all_gather`, `all_to_all` or `send_receive`.
        buffer_bytes: Buffer sizes as in nccl-tests.
        system: The machines.
        devices: Members of the group; all devices where left out.
        stride: Distance between neighbours of the group.
        progress: Called with the sizes done and the sizes in all.

    Raises:
        ScalewrightError: Wrong name, a group that leaves the system, or a size that is none.
    """
    import numpy as np

    sizes = np.atleast_1d(np.asarray(buffer_bytes, dtype=np.float64))
    members = system.devices if devices is None else devices
    return _engine.collective_times(system.cluster, name, stride, members, sizes, progress=progress)
