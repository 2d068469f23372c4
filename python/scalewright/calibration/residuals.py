"""How far are predicted times from measured ones, by collective and by size?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy import bool_, float64
    from numpy.typing import NDArray

    from scalewright.calibration.measured import Measured

# upper ends of the bands: what latency decides, what neither does, what bandwidth does
_BANDS = ((64 * 1024, "up to 64 KiB"), (16 * 1024**2, "to 16 MiB"), (float("inf"), "above"))


def residuals(
    rows: Sequence[Measured], predicted: NDArray[float64], chosen: NDArray[bool_]
) -> list[dict[str, Any]]:
    """Return a line for all chosen rows and one for each collective and band of sizes.

    An error is predicted over measured time, less one; median and 90th percentile are of its size.
    """
    import numpy as np

    measured = np.array([row.time_s for row in rows])
    errors = predicted / measured - 1.0
    lines: list[dict[str, Any]] = []
    if chosen.any():
        lines.append({"collective": "all", "sizes": "all", **_line(rows, errors, chosen)})
    for name in sorted({row.collective for row in rows}):
        below = 0.0
        for most, band in _BANDS:
            here = np.array(
                [row.collective == name and below < row.buffer_bytes <= most for row in rows]
            )
            if (here & chosen).any():
                line = _line(rows, errors, here & chosen)
                lines.append({"collective": name, "sizes": band, **line})
            below = most
    return lines


def _line(
    rows: Sequence[Measured], errors: NDArray[float64], chosen: NDArray[bool_]
) -> dict[str, Any]:
    import numpy as np

    places = np.flatnonzero(chosen)
    sizes = np.abs(errors[places])
    worst = int(places[int(sizes.argmax())])
    return {
        "rows": len(places),
        "median_abs_error": float(np.median(sizes)),
        "error_90th_percentile": float(np.quantile(sizes, 0.9)),
        "worst_error": float(errors[worst]),
        "worst_bytes": rows[worst].buffer_bytes,
        "worst_ranks": rows[worst].ranks,
        "worst_place": rows[worst].place,
    }
