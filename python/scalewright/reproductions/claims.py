"""Which published claims of a group of papers ship, and how does a prediction meet one?"""

from __future__ import annotations

import csv
import io
import statistics
from typing import TYPE_CHECKING, Any

from scalewright.catalog.layers import built_in_root
from scalewright.errors import InvalidError, ScalewrightError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Row = dict[str, str]
Result = dict[str, Any]
Predicted = tuple[float, dict[str, Any]]
"""The figure in the row's unit, and what it is made of."""
FAR = 1.3
"""A prediction that is out by more than this factor is counted on its own."""
SHOWN = ("paper", "place", "what", "unit", "source_kind", "source")
"""Columns that every file has and a result keeps; `published` is kept as a number."""


def read(group: str, table: str) -> list[Row]:
    """Return the rows of a file of `published/GROUP`, in its order."""
    place = built_in_root() / "published" / group / f"{table}.csv"
    return list(csv.DictReader(io.StringIO(place.read_text(encoding="utf-8"), newline="")))


def compared(
    table: str, rows: list[Row], predict: Callable[[Mapping[str, str]], Predicted]
) -> Iterator[Result]:
    """Predict each row; one that cannot be predicted keeps its place and says why.

    `error` is predicted over published, less one; where nothing was published (a bubble of zero),
    the prediction itself. Where `bound` is `least` the source gives a floor, which nothing above it
    misses.
    """
    for row in rows:
        published = float(row["published"])
        result: Result = {
            "table": table,
            **{name: row[name] for name in SHOWN},
            "published": published,
            "bound": row.get("bound", ""),
            "predicted": None,
            "error": None,
            "reason": None,
            "details": {},
        }
        try:
            predicted, details = predict(row)
        except ScalewrightError as error:
            yield result | {"reason": str(error)}
            continue
        error = predicted / published - 1.0 if published else predicted
        if result["bound"] == "least":
            error = min(error, 0.0)
        yield result | {"predicted": predicted, "error": error, "details": details}


def by_kind(
    kinds: Mapping[str, Callable[[], Predicted]],
) -> Callable[[Mapping[str, str]], Predicted]:
    """Return what predicts a row by its column `kind`; for `absent` the source says what lacks."""

    def predict(row: Mapping[str, str]) -> Predicted:
        kind = row["kind"]
        if kind == "absent":
            message = f"not predicted: {row['source'].rpartition('; ')[2]}"
            raise InvalidError(message)
        if kind not in kinds:
            message = f"kind: got '{kind}'; allowed: absent, {', '.join(kinds)}"
            raise UnknownNameError(message)
        return kinds[kind]()

    return predict


def is_far(row: Result) -> bool:
    """Say whether a prediction is out by more than the factor `FAR`."""
    error = row["error"]
    return error is not None and (error > FAR - 1.0 or error < 1.0 / FAR - 1.0)


def summed(table: str, rows: Sequence[Result]) -> Result:
    """Return how many rows there are, and how far out predictions are on the whole."""
    errors = [row["error"] for row in rows if row["error"] is not None]
    sizes = [abs(error) for error in errors]
    return {
        "table": table,
        "rows": len(rows),
        "rows_priced": len(errors),
        "rows_skipped": len(rows) - len(errors),
        "median_abs_error": statistics.median(sizes) if sizes else None,
        "median_error": statistics.median(errors) if errors else None,
        "worst_error": max(errors, key=abs) if errors else None,
        "beyond_1_3": sum(is_far(row) for row in rows),
    }
