"""Which option does each of many items take, where options share limited and timed rows?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from scalewright import _engine
from scalewright.config import json_text, named_as, need_count, need_progress
from scalewright.errors import InvalidError
from scalewright.planning.arguments import floats
from scalewright.planning.stamp import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Columns = dict[str, NDArray[Any]]

_MOST = 2**32 - 1


_PATHS = {r"options(\[\d+\])\.cost": r"costs\1", r"rows(\[\d+\])\.limit": r"limits\1"}
"""What a caller wrote, by the engine's path."""


@dataclass(frozen=True)
class Assignment(Answer):
    """Shares of the options, and what is proven about them.

    Attributes:
        fits: False where no shares keep all limits; then there is nothing but `short`.
        objective: Sum of cost times share and of weight times window.
        bound: No shares have a lower objective.
        relative_gap: How far the objective may be above the lowest, as a part of it.
        shares: Share of each option; those of an item add to 1.
        windows: Length of each window.
        prices: Of each row: by how much the objective falls with a unit of its limit, or grows with
            a unit of its base, where items may be divided. None from HiGHS.
        nodes: Relaxed programs that were solved; of HiGHS, its nodes.
        short: Rows by number, and by how much their limits are missed at the least. None from
            HiGHS.
    """

    fits: bool
    objective: float | None
    bound: float | None
    relative_gap: float | None
    shares: Floats | None
    windows: Floats | None
    prices: Floats | None
    nodes: int
    short: Mapping[int, float]


def assign(
    items: ArrayLike,
    costs: ArrayLike,
    uses: ArrayLike | tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike],
    *,
    limits: ArrayLike = (),
    timed: tuple[ArrayLike, ArrayLike] = ((), ()),
    windows: tuple[ArrayLike, ArrayLike] = ((), ()),
    whole: ArrayLike = True,
    relative_gap: float = 0.01,
    nodes: int = 10_000,
    progress: Callable[[int, int], object] | None = None,
) -> Assignment:
    """Choose an option for each item at the least cost, where options share rows.

    This is the solver under the placement of tensors, for models of your own: it minimises the sum
    of `cost * share` over options and of `weight * length` over windows, where an item's shares add
    to 1, the uses of a limited row add to at most its limit, a timed row's base and uses to at most
    the length of its window, and a window is at least as long as its floor. The bound is proven.

    Args:
        items: How many options each item has; options are numbered item after item.
        costs: Cost of each option.
        uses: How much of each row an option uses: an array of options by rows, or four lists of
            one length for the uses alone, in any order: options, first rows, rows after the last
            and amounts. Amounts are 0 or more.
        limits: Limit of each limited row; these rows are numbered first.
        timed: Windows and bases of the timed rows, which are numbered next.
        windows: Floors and weights of the windows.
        whole: Items take one option alone; of all, or for each item.
        relative_gap: Relative gap at which the search ends.
        nodes: Relaxed programs to solve at most.
        progress: Called with units done and units in all.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    need_progress(progress)
    columns = model_columns(
        items, costs, uses, limits=limits, timed=timed, windows=windows, whole=whole
    )
    asked = json_text("", {"relative_gap": relative_gap, "nodes": need_count("nodes", nodes)})
    with named_as(_PATHS):
        found = _engine.assign(columns, asked, progress=progress)
    if "objective" not in found:
        rows, amounts = found["short_rows"].tolist(), found["short_amounts"].tolist()
        short = dict(zip(rows, amounts, strict=True))
        return Assignment(False, *[None] * 6, nodes=0, short=short)
    return Assignment(fits=True, short={}, **found)


def model_columns(
    items: ArrayLike,
    costs: ArrayLike,
    uses: ArrayLike | tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike],
    *,
    limits: ArrayLike,
    timed: tuple[ArrayLike, ArrayLike],
    windows: tuple[ArrayLike, ArrayLike],
    whole: ArrayLike,
) -> Columns:
    """Return the columns of a model that solvers read.

    Raises:
        InvalidError: A list holds what it must not.
    """
    options = _numbers("items", items)
    timed_window, timed_base = _pair("timed", timed)
    floor, weight = _pair("windows", windows)
    columns: Columns = {
        "options": options,
        "whole": _flags("whole", whole, options.shape),
        "cost": _list("costs", costs),
        "limit": _list("limits", limits),
        "timed_window": _numbers("timed", timed_window),
        "timed_base": _list("timed", timed_base),
        "window_floor": _list("windows", floor),
        "window_weight": _list("windows", weight),
    }
    rows = columns["limit"].size + columns["timed_window"].size
    return columns | _uses(uses, columns["cost"].size, rows)


def _uses(uses: object, options: int, rows: int) -> Columns:
    import numpy as np

    if isinstance(uses, tuple):
        lists = cast("tuple[ArrayLike, ...]", uses)
        if len(lists) != 4:
            message = "uses: got another number of lists; allowed: options, rows, ends and amounts"
            raise InvalidError(message)
        option, first, end, amount = lists
        of = _numbers("uses", option)
        ordered = np.argsort(of, kind="stable")
        table = {
            "use_first": _numbers("uses", first),
            "use_end": _numbers("uses", end),
            "use_amount": _list("uses", amount),
        }
        if any(column.size != of.size for column in table.values()):
            message = "uses: got lists of several lengths; allowed: four of one length"
            raise InvalidError(message)
        return {"use_option": of[ordered]} | {
            name: np.ascontiguousarray(column[ordered]) for name, column in table.items()
        }
    dense = floats("uses", cast("ArrayLike", uses))
    if dense.size == 0:
        dense = dense.reshape(options, rows) if options * rows == 0 else dense
    if dense.shape != (options, rows):
        message = f"uses: got shape {dense.shape}; allowed: options by rows, {(options, rows)}"
        raise InvalidError(message)
    option, row = np.nonzero(dense)
    return {
        "use_option": option.astype(np.uint32),
        "use_first": row.astype(np.uint32),
        "use_end": (row + 1).astype(np.uint32),
        "use_amount": np.ascontiguousarray(dense[option, row]),
    }


def _pair(field: str, pair: object) -> tuple[ArrayLike, ArrayLike]:
    if isinstance(pair, tuple):
        lists = cast("tuple[ArrayLike, ...]", pair)
        if len(lists) == 2:
            return lists
    message = f"{field}: got {pair!r:.60}; allowed: a tuple of two lists of one length"
    raise InvalidError(message)


def _flags(field: str, values: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return truth values, one for all or one each; zeros and ones are some too."""
    import numpy as np

    message = f"{field}: got {values!r:.60}; allowed: true or false, of all or for each"
    try:
        given = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise InvalidError(message) from error
    if given.dtype.kind not in "biuf" or not np.isin(given, (0, 1)).all():
        raise InvalidError(message)
    if given.shape not in ((), shape):
        message = f"{field}: got shape {given.shape}; allowed: one for all or shape {shape}"
        raise InvalidError(message)
    return np.array(np.broadcast_to(given != 0, shape))


def _list(field: str, values: ArrayLike) -> Floats:
    import numpy as np

    given = floats(field, values)
    if given.ndim != 1:
        message = f"{field}: got shape {given.shape}; allowed: a list"
        raise InvalidError(message)
    return np.ascontiguousarray(given)


def _numbers(field: str, values: ArrayLike) -> NDArray[np.uint32]:
    import numpy as np

    given = _list(field, values)
    if np.any((given < 0) | (given > _MOST) | (given != np.floor(given))):
        message = f"{field}: got {values!r:.60}; allowed: whole numbers from 0 to {_MOST}"
        raise InvalidError(message)
    return given.astype(np.uint32)
