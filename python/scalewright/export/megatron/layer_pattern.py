"""Which layers does a list of noughts and ones, as `([0]*3+[1]*58)`, mark?"""

from __future__ import annotations

import ast
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_TEXT = 4096
_MOST_LAYERS = 2**16


def sparse_layers(layers: int, dense: int, every: int) -> list[int]:
    """Return 1 for each sparse layer: every so many-th one after the first dense ones."""
    return [int(i >= dense and (i - dense + 1) % every == 0) for i in range(layers)]


def pattern_text(marks: Sequence[int]) -> str:
    """Return the marks as text, its shortest repeated period written once."""
    length = len(marks)
    periods = (p for p in range(1, length + 1) if length % p == 0)
    period = next(p for p in periods if list(marks[:p]) * (length // p) == list(marks))
    runs = [(mark, len(list(run))) for mark, run in groupby(marks[:period])]
    inner = "+".join(f"[{mark}]*{count}" if count > 1 else f"[{mark}]" for mark, count in runs)
    return f"({inner})" if period == length else f"({inner})*{length // period}"


def read_pattern(text: str) -> list[int] | None:
    """Return the marks that a text means, or none where it is no such list."""
    if len(text) > _MOST_TEXT:
        return None
    try:
        value = _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, list) else None


def _value(node: ast.expr) -> list[int] | int:
    """Return the value of a list, a number, a sum of lists or a repeated list.

    Raises:
        ValueError: It is something else, or longer than any model is deep.
    """
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.List(elts=items):
            return [_mark(_value(item)) for item in items]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [*_list(_value(left)), *_list(_value(right))]
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _repeated(_value(left), _value(right))
        case _:
            raise ValueError


def _mark(value: list[int] | int) -> int:
    if isinstance(value, int) and value in (0, 1):
        return value
    raise ValueError


def _list(value: list[int] | int) -> list[int]:
    if isinstance(value, list):
        return value
    raise ValueError


def _repeated(first: list[int] | int, second: list[int] | int) -> list[int]:
    marks, times = (first, second) if isinstance(first, list) else (second, first)
    if isinstance(times, int) and 0 <= times <= _MOST_LAYERS:
        marks = _list(marks)
        if len(marks) * times <= _MOST_LAYERS:
            return marks * times
    raise ValueError


def read_sparse(marks: Sequence[int]) -> dict[str, int] | None:
    """Return the `first_dense_layers` and `every` that mark the same layers, or none."""
    where = [index for index, mark in enumerate(marks) if mark]
    if not where:
        return None
    every = where[1] - where[0] if len(where) > 1 else len(marks) - where[0]
    dense = where[0] - every + 1
    if dense < 0 or sparse_layers(len(marks), dense, every) != list(marks):
        return None
    found = {"first_dense_layers": dense, "every": every}
    return {key: value for key, value in found.items() if value != int(key == "every")}
