"""What does HiGHS, an independent solver, find for a model of `scalewright.assign`?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scalewright.config import need_number
from scalewright.errors import InvalidError, UnknownNameError
from scalewright.planning.assigning import Assignment, model_columns

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from scalewright.planning.assigning import Columns

_METHODS = ("choose", "simplex", "ipm")


def assign_with_highs(
    items: ArrayLike,
    costs: ArrayLike,
    uses: ArrayLike | tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike],
    *,
    limits: ArrayLike = (),
    timed: tuple[ArrayLike, ArrayLike] = ((), ()),
    windows: tuple[ArrayLike, ArrayLike] = ((), ()),
    whole: ArrayLike = True,
    relative_gap: float = 0.01,
    most_s: float | None = None,
    method: str = "choose",
) -> Assignment:
    """Solve a model of `scalewright.assign` with HiGHS (Huangfu & Hall 2018) instead.

    It is a witness that shares nothing with the engine, and needs the extra `highs`.

    Args:
        items: As in `assign`.
        costs: As in `assign`.
        uses: As in `assign`.
        limits: As in `assign`.
        timed: As in `assign`.
        windows: As in `assign`.
        whole: As in `assign`.
        relative_gap: Relative gap at which the search ends.
        most_s: Seconds after which it stops with what it has; no limit where left out.
        method: Its method for divided items: `simplex`, `ipm`, or `choose`.

    Raises:
        InvalidError: `highspy` is not installed, a value is wrong, or HiGHS stopped without shares.
    """
    columns = model_columns(
        items, costs, uses, limits=limits, timed=timed, windows=windows, whole=whole
    )
    gap = need_number("relative_gap", relative_gap, "a number, 0 or more")
    if method not in _METHODS:
        message = f"method: got {method!r:.60}; allowed: {', '.join(_METHODS)}"
        raise UnknownNameError(message)
    try:
        highspy: Any = import_module("highspy")
    except ImportError as error:
        message = (
            "assign_with_highs: highspy is not installed; "
            "allowed: with the extra `highs`, as pip install 'scalewright[highs]'"
        )
        raise InvalidError(message) from error
    solver = highspy.Highs()
    options: dict[str, Any] = {
        "output_flag": False,
        "threads": 1,
        "mip_rel_gap": gap,
        "solver": method,
    }
    if most_s is not None:
        options["time_limit"] = float(most_s)
    for name, value in options.items():
        solver.setOptionValue(name, value)
    solver.passModel(_program(highspy, columns))
    solver.run()
    return _told(highspy, solver, columns)


def _program(highspy: Any, columns: Columns) -> Any:  # noqa: ANN401 - a package without types
    """Write a model down as HiGHS reads it: options then windows; items, then rows."""
    import numpy as np

    item_of = np.repeat(np.arange(columns["options"].size), columns["options"])
    starts, numbers, amounts = _rows(columns, item_of)
    limited, timed = columns["limit"], columns["timed_window"]
    free = columns["window_floor"].size
    ones = np.ones(columns["options"].size)
    # limits are divided out, so that a tolerance means the same for bytes and for seconds
    program = highspy.HighsLp()
    program.num_col_ = item_of.size + free
    program.num_row_ = starts.size - 1
    program.col_cost_ = np.concatenate([columns["cost"], columns["window_weight"]])
    program.col_lower_ = np.concatenate([np.zeros(item_of.size), columns["window_floor"]])
    program.col_upper_ = np.concatenate([np.ones(item_of.size), np.full(free, np.inf)])
    below = np.full(limited.size + timed.size, -np.inf)
    scaled = np.where(limited > 0, 1.0, 0.0)
    program.row_lower_ = np.concatenate([ones, below])
    program.row_upper_ = np.concatenate([ones, scaled, -columns["timed_base"]])
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = starts
    program.a_matrix_.index_ = numbers
    program.a_matrix_.value_ = amounts
    if columns["whole"].any():
        kind = highspy.HighsVarType
        whole = np.repeat(columns["whole"], columns["options"])
        kinds = [kind.kInteger if one else kind.kContinuous for one in whole]
        program.integrality_ = kinds + [kind.kContinuous] * free
    return program


def _rows(columns: Columns, item_of: Any) -> tuple[Any, Any, Any]:  # noqa: ANN401 - arrays
    """List the matrix row by row: where rows start, columns, amounts."""
    import numpy as np

    items, limited = columns["options"].size, columns["limit"]
    lengths = columns["use_end"].astype(np.int64) - columns["use_first"]
    column = np.repeat(columns["use_option"].astype(np.int64), lengths)
    before = np.repeat(np.cumsum(lengths) - lengths, lengths)
    row = np.repeat(columns["use_first"].astype(np.int64), lengths)
    row += np.arange(row.size) - before
    amount = np.repeat(columns["use_amount"], lengths)
    scale = np.ones(limited.size + columns["timed_window"].size)
    scale[: limited.size] = np.where(limited > 0, limited, 1.0)
    timed = np.arange(columns["timed_window"].size)
    rows = np.concatenate([item_of, items + row, items + limited.size + timed])
    options = int(columns["cost"].size)
    ends = options + columns["timed_window"].astype(np.int64)
    numbers = np.concatenate([np.arange(options), column, ends])
    values = np.concatenate([np.ones(options), amount / scale[row], np.full(timed.size, -1.0)])
    # several uses of one row by one option add up
    places, at = np.unique(np.stack([rows, numbers]), axis=1, return_inverse=True)
    summed = np.bincount(at.reshape(-1), weights=values, minlength=places.shape[1])
    starts = np.searchsorted(places[0], np.arange(items + scale.size + 1))
    return starts.astype(np.int32), places[1].astype(np.int32), summed


def _told(highspy: Any, solver: Any, columns: Columns) -> Assignment:  # noqa: ANN401 - as above
    import numpy as np

    status = solver.getModelStatus()
    kinds = highspy.HighsModelStatus
    if status in {kinds.kInfeasible, kinds.kUnboundedOrInfeasible}:
        return Assignment(False, *[None] * 6, nodes=0, short={})
    info = solver.getInfo()
    objective = float(info.objective_function_value)
    if not np.isfinite(objective) or info.primal_solution_status != 2:  # feasible, in its words
        message = f"HiGHS: got no shares ({solver.modelStatusToString(status)}); allowed: more time"
        raise InvalidError(message)
    values = np.array(solver.getSolution().col_value)
    options = columns["cost"].size
    divided = not columns["whole"].any()
    bound = objective if divided else float(info.mip_dual_bound)
    away = max(objective - bound, 0.0)
    return Assignment(
        fits=True,
        objective=objective,
        bound=bound,
        relative_gap=away / abs(objective) if away else 0.0,
        shares=values[:options],
        windows=values[options:],
        prices=None,
        nodes=max(int(info.mip_node_count), 0),
        short={},
    )
