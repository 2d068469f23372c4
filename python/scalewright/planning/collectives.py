"""How long does a collective take on a group of a system's devices?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.config import need, need_count
from scalewright.errors import InvalidError
from scalewright.planning.inputs import System

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy import float64
    from numpy.typing import ArrayLike, NDArray


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

    need("collective", name, str, "a name, as all_reduce")
    need("system", system, System, "what scalewright.system(...) returns")
    members = system.devices if devices is None else devices
    need_count("devices", members)
    need_count("stride", stride)
    try:
        sizes = np.atleast_1d(np.asarray(buffer_bytes, dtype=np.float64))
    except (TypeError, ValueError, OverflowError) as error:
        message = f"buffer_bytes: got {buffer_bytes!r:.60}; allowed: numbers of bytes"
        raise InvalidError(message) from error
    return _engine.collective_times(
        system.cluster,
        name.encode("utf-8", "backslashreplace").decode(),
        stride,
        members,
        sizes,
        progress=progress,
    )
