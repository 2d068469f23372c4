"""Does the engine's solver agree with HiGHS, which shares nothing with it?"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewright as sw
from scalewright.errors import InvalidError

AMOUNTS = st.sampled_from([0.0, 0.0, 1.0, 2.0, 3.0]) | st.floats(0.0, 10.0).map(
    lambda x: round(x, 3)
)


@st.composite
def models(draw: Any) -> dict[str, Any]:
    """Draw a small model with ties, items of no size and tight limits among them."""
    items = draw(st.lists(st.integers(1, 4), min_size=1, max_size=7))
    options = sum(items)
    limited = draw(st.integers(0, 3))
    windows = draw(st.integers(0, 2))
    timed = draw(st.integers(0, 3)) if windows else 0

    def listed(amounts: Any, size: int) -> list[Any]:
        return draw(st.lists(amounts, min_size=size, max_size=size))

    rows = limited + timed
    uses = np.array([listed(AMOUNTS, rows) for _ in range(options)]).reshape(options, rows)
    tight = draw(st.floats(0.2, 1.2))
    return {
        "items": items,
        "costs": listed(st.integers(-5, 5) | st.floats(-5.0, 5.0), options),
        "uses": uses,
        "limits": [round(tight * column.sum() / 3, 3) for column in uses[:, :limited].T],
        "timed": (listed(st.integers(0, max(windows - 1, 0)), timed), listed(AMOUNTS, timed)),
        "windows": (listed(AMOUNTS, windows), listed(AMOUNTS, windows)),
    }


def kept(model: dict[str, Any], found: sw.Assignment, slack: float = 1e-6) -> bool:
    """Say whether shares keep every limit and their windows are long enough."""
    assert found.shares is not None
    assert found.windows is not None
    used = found.shares @ model["uses"]
    limits = np.asarray(model["limits"], dtype=float)
    window, base = model["timed"]
    long = found.windows[np.asarray(window, dtype=int)] - np.asarray(base, dtype=float)
    return bool(
        (used[: limits.size] <= limits + slack * (1 + limits)).all()
        and (used[limits.size :] <= long + slack * (1 + abs(long))).all()
    )


@pytest.mark.parametrize("whole", [True, False])
@given(model=models())
@settings(max_examples=150, deadline=None)
def test_the_engine_and_highs_find_the_same(whole: bool, model: dict[str, Any]):
    own = sw.assign(**model, whole=whole, relative_gap=0.0, nodes=1_000_000)
    witness = sw.assign_with_highs(**model, whole=whole, relative_gap=0.0)
    assert own.fits == witness.fits
    if not own.fits:
        assert own.short
        assert all(amount > 0 for amount in own.short.values())
        return
    assert own.objective is not None
    assert own.bound is not None
    assert witness.objective is not None
    size = 1 + abs(witness.objective)
    assert own.objective == pytest.approx(witness.objective, abs=1e-6 * size)
    assert own.bound <= witness.objective + 1e-6 * size
    assert kept(model, own)
    assert kept(model, witness)
    if whole:
        assert own.shares is not None
        assert set(np.round(own.shares, 9)) <= {0.0, 1.0}


@given(model=models())
@settings(max_examples=60, deadline=None)
def test_limits_that_grow_by_the_shortage_fit(model: dict[str, Any]):
    found = sw.assign(**model, whole=False)
    if not found.fits:
        limits = np.asarray(model["limits"], dtype=float)
        for row, amount in found.short.items():
            limits[row] += amount * (1 + 1e-9) + 1e-9
        assert sw.assign(**(model | {"limits": limits}), whole=False).fits


@given(model=models())
@settings(max_examples=60, deadline=None)
def test_runs_of_rows_in_any_order_mean_what_the_array_means(model: dict[str, Any]):
    uses = model["uses"]
    option, row = np.nonzero(uses)
    order = np.random.default_rng(1).permutation(option.size)
    option, row = option[order], row[order]
    runs = (option, row, row + 1, uses[option, row])
    dense = sw.assign(**model, whole=False, relative_gap=1e-9)
    sparse = sw.assign(**(model | {"uses": runs}), whole=False, relative_gap=1e-9)
    assert dense.fits == sparse.fits
    if dense.fits:
        assert sparse.objective == pytest.approx(dense.objective)


MODEL: dict[str, Any] = {
    "items": [2, 1],
    "costs": [1.0, 2.0, 0.0],
    "uses": [[1.0, 0.5], [0.0, 1.0], [1.0, 0.0]],
    "limits": [1.5],
    "timed": ([0], [0.25]),
    "windows": ([0.0], [3.0]),
}


@pytest.mark.parametrize("solve", [sw.assign, sw.assign_with_highs])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"items": [2.5, 1]}, "items"),
        ({"items": [-2, 1]}, "items"),
        ({"uses": [[1.0]]}, "uses"),
        ({"uses": ([0], [0], [1])}, "uses"),
        ({"uses": ([0, 1], [0], [1], [1.0])}, "uses"),
        ({"limits": [[1.0]]}, "limits"),
        ({"timed": [0]}, "timed"),
        ({"costs": "cheap"}, "costs"),
        ({"whole": [True, False, True]}, "whole"),
    ],
)
def test_a_wrong_list_is_named(solve: Any, wrong: dict[str, Any], said: str):
    with pytest.raises(InvalidError, match=said):
        solve(**(MODEL | wrong))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"items": [2, 2]}, "costs"),
        ({"uses": ([9], [0], [1], [1.0])}, "uses"),
        ({"uses": ([0], [0], [9], [1.0])}, "uses"),
        ({"uses": ([0], [0], [1], [-1.0])}, "uses"),
        ({"relative_gap": -1.0}, "relative_gap"),
        ({"limits": [float("nan")]}, "limit"),
        ({"timed": ([3], [0.0])}, "window"),
    ],
)
def test_the_engine_names_a_wrong_value(wrong: dict[str, Any], said: str):
    with pytest.raises(sw.ScalewrightError, match=said):
        sw.assign(**(MODEL | wrong))


@pytest.mark.parametrize("method", ["simplex", "ipm"])
def test_the_methods_of_highs_agree_with_the_engine(method: str):
    own = sw.assign(**MODEL, whole=False, relative_gap=1e-9)
    witness = sw.assign_with_highs(**MODEL, whole=False, method=method)
    assert witness.objective == pytest.approx(own.objective, rel=1e-6)
    with pytest.raises(sw.UnknownNameError, match="method"):
        sw.assign_with_highs(**MODEL, method="guess")


def test_without_highspy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "highspy", None)
    with pytest.raises(InvalidError, match=r"scalewright\[highs\]"):
        sw.assign_with_highs(**MODEL)
