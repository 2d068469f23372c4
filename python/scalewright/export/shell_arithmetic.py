"""What does whole-number arithmetic of a shell script, as in `$((A * B))`, come to?"""

from __future__ import annotations

import ast

_MOST_TEXT = 200
_MOST = 10**18


def whole_number(text: str) -> int | None:
    """Return the value of sums, differences, products, quotients and remainders, or none."""
    if len(text) > _MOST_TEXT:
        return None
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> int:
    """Return the value of a node.

    Raises:
        ValueError: It is no such arithmetic, or too large.
    """
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.BinOp(left=left, op=op, right=right):
            value = _applied(op, _value(left), _value(right))
            if abs(value) <= _MOST:
                return value
            raise ValueError
        case _:
            raise ValueError


def _applied(op: ast.operator, left: int, right: int) -> int:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div() | ast.FloorDiv():
            return left // right
        case ast.Mod():
            return left % right
        case _:
            raise ValueError
