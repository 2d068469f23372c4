"""How long does an all-to-all take whose ranks send unequal parts, as to busy experts?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalewright import _engine
from scalewright.config import named_as, need_count
from scalewright.errors import InvalidError
from scalewright.planning.arguments import floats, machines_of
from scalewright.planning.stamp import Answer

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from scalewright.planning.inputs import System


@dataclass(frozen=True)
class UnevenAllToAll(Answer):
    """Cost of an all-to-all of unequal parts.

    Attributes:
        time_s: Until the last rank is done.
        lower_bound_s: What no algorithm can beat: the busiest port at its sustained rate.
        busiest_rank: The rank that sends or receives longest.
        busiest_bytes: What this rank sends to or receives from others, whichever is more.
    """

    time_s: float
    lower_bound_s: float
    busiest_rank: int
    busiest_bytes: float


def uneven_all_to_all(
    byte_matrix: ArrayLike, system: System | str, *, stride: int = 1
) -> UnevenAllToAll:
    """Return the cost of an all-to-all in which rank `i` sends `byte_matrix[i][j]` to rank `j`.

    Equal parts agree with `collective("all_to_all", ...)` of a row's sum.

    Args:
        byte_matrix: A row of bytes for each rank that sends, a column for each that receives.
        system: The machines, or the catalog name of a system with as many devices as are needed.
        stride: Distance between neighbours of the group.

    Raises:
        ScalewrightError: The matrix is not square, a part is negative or no number, or the group
            leaves the system.
    """
    import numpy as np

    stride = need_count("stride", stride)
    parts = floats("byte_matrix", byte_matrix)
    if len(parts.shape) != 2 or parts.shape[0] != parts.shape[1] or parts.size == 0:
        message = f"byte_matrix: got shape {parts.shape}; allowed: ranks x ranks"
        raise InvalidError(message)
    machines = machines_of(system, np.array([parts.shape[0]], np.uint32), stride)
    sent = np.ascontiguousarray(parts).ravel()
    with named_as({r"bytes(?=\[)": "byte_matrix"}):
        answer = _engine.uneven(machines.cluster, stride, parts.shape[0], sent)
    return UnevenAllToAll(**json.loads(answer), _rests_on=machines)
