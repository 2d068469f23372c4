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
    algorithm: str | None = None,
    progress: Callable[[int, int], Any] | None = None,
) -> NDArray[float64]:
    """Return the times in seconds of a collective, one for each buffer size.

    Args:
        name: `all_reduce`, `reduce_scatter`, `all_gather`, `all_to_all`, `send_receive`,
            `broadcast`, `reduce`, `gather`, `scatter` or `barrier`.
        buffer_bytes: Buffer sizes as in nccl-tests.
        system: The machines.
        devices: Members of the group; all devices where left out.
        stride: Distance between neighbours of the group.
        algorithm: One algorithm by name, as `halving_doubling`, whether or not the fabric's library
            has it; where left out, those that the library has compete and the least time counts.
        progress: Called with the sizes done and the sizes in all.

    Raises:
        ScalewrightError: Wrong name, a group that leaves the system, an algorithm that cannot
            run on it, or a size that is none.
    """
    import numpy as np

    need("collective", name, str, "a name, as all_reduce")
    need("system", system, System, "what scalewright.system(...) returns")
    if algorithm is not None:
        need("algorithm", algorithm, str, "a name, as ring, or None")
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
        _plain(name),
        (stride, members),
        sizes,
        algorithm=None if algorithm is None else _plain(algorithm),
        progress=progress,
    )


def _plain(name: str) -> str:
    """A name with what UTF-8 cannot say written as escapes, so that the engine can quote it."""
    return name.encode("utf-8", "backslashreplace").decode()
