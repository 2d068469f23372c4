"""How long do kernels of one kind take on a device, a time for each shape?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.catalog import load_device, with_costs
from scalewright.config import json_text, need, need_places, need_table
from scalewright.errors import InvalidError
from scalewright.planning.arguments import floats

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


def kernel_times(
    kernel: Mapping[str, Any],
    device: str | Path | Mapping[str, Any],
    shapes: Mapping[str, ArrayLike],
    *,
    overrides: Sequence[str | Path] = (),
) -> Floats:
    """Return the time in seconds of each of many kernels of one kind on one device.

    Args:
        kernel: What runs: `kernel` and its formats, as `{"kernel": "matmul", "a": "bf16",
            "b": "bf16", "output": "bf16"}`; `docs/kernels.md` lists the kinds.
        device: A catalog name, the path of a TOML file, or the fields of a device.
        shapes: Numbers by name, as `{"m": [...], "n": [...], "k": [...]}`: arrays of one shape; a
            single number stands for all.
        overrides: User files or directories that add to the catalog or change it.

    Returns:
        An array of the shape that the arrays have.

    Raises:
        ScalewrightError: A name is not known, or a number cannot be.
    """
    import numpy as np

    kind = need_table("kernel", kernel, "the kind and its formats, as {'kernel': 'matmul', ...}")
    need_table("shapes", shapes, "numbers by name, as {'m': [...], 'n': [...], 'k': [...]}")
    need("device", device, (str, Path, Mapping), "a name, a path, or the fields of a device")
    need_places(overrides)
    if isinstance(device, Mapping):
        table: Mapping[str, Any] = device
    else:
        table = with_costs(load_device(str(device), overrides))
    given = {name: floats(f"shapes.{name}", values) for name, values in shapes.items()}
    try:
        shape = np.broadcast_shapes(*(values.shape for values in given.values()))
    except ValueError as error:
        found = ", ".join(f"{name} {values.shape}" for name, values in given.items())
        message = f"shapes: got {found}; allowed: arrays of one shape, or single numbers"
        raise InvalidError(message) from error
    columns = {
        name: np.ascontiguousarray(values.ravel() if values.size == 1 else spread.ravel())
        for name, values in given.items()
        for spread in [np.broadcast_to(values, shape)]
    }
    text = json_text("device", dict(table))
    times = _engine.kernel_times(text, json_text("kernel", kind), columns)
    return np.array(np.broadcast_to(times, (int(np.prod(shape)),))).reshape(shape)
