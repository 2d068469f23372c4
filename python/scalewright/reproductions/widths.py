"""Which widths of feed-forward parts does a cell of a table say?"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from scalewright.reproductions.metrics import ungrouped

if TYPE_CHECKING:
    from scalewright.reproductions.reading import Row

_TWO = re.compile(
    r"([0-9][0-9,]{2,6}) \(?dense\)?[,;/ ]{1,3}(?:and )?([0-9][0-9,]{1,6}) "
    r"(?:\(?(?:an? |per |each |routed )?(?:experts?|moe)\)?)"
)
"""Widths of dense layers and of one expert in a cell, as `2816 dense, 384 expert`."""
_KIND = re.compile(
    r"(?:(?P<before>(?:swi|ge|re)glu|gelu|silu)[ ,:=]{1,3})?"
    r"(?P<width>[0-9][0-9,_]{1,9})"
    r"(?:,? \(?(?P<behind>(?:swi|ge|re)glu|gelu|silu)\)?)?"
)
"""A width and the activation between its products, as `SwiGLU 5632`."""
_TIMES = re.compile(
    r"(?P<times>[1-9](?:\.[0-9]{1,4})?) ?[x\u00d7*]? ?"
    r"(?:d|h|d_model|hidden(?:[_ ]size)?|n_embd|width)"
)
"""How many times the stream's width: `4d`, `4 x hidden`."""

_RATIO = re.compile(r"hidden_ratio ?[=:]? ?(?P<ratio>[1-9](?:\.[0-9]{1,4})?)")
"""The option of flash-linear-attention from which its gated parts take their width."""
_MULTIPLE = 256
"""Of which that width is a multiple, rounded up."""


def with_widths(row: Row) -> Row:
    """Tell widths from what stands beside them in their cell; other text stays.

    An activation beside a width is said as a remark of the row would say it.
    """
    text = row.text("ffn").casefold()
    if not row.text("expert_ffn") and (two := _TWO.fullmatch(text)) is not None:
        return replace(row, cells=row.cells | {"ffn": two[1], "expert_ffn": two[2]})
    hidden = row.told("hidden")
    if (told := _TIMES.fullmatch(text)) is not None and hidden is not None:
        width = float(told["times"]) * hidden
        return replace(row, cells=row.cells | {"ffn": str(round(width))})
    if (told := _RATIO.fullmatch(text)) is not None and hidden is not None:
        # two thirds, for a gated part has three products where a plain one has two
        least = int(hidden * float(told["ratio"]) * 2 / 3)
        width = -(-least // _MULTIPLE) * _MULTIPLE
        return replace(row, cells=_with_kind(row, "swiglu") | {"ffn": str(width)})
    found = _KIND.fullmatch(text)
    if found is None or not (kind := found["before"] or found["behind"]):
        return row
    return replace(row, cells=_with_kind(row, kind) | {"ffn": ungrouped(found["width"])})


def _with_kind(row: Row, kind: str) -> dict[str, str]:
    """Return a row's cells with an activation among its remarks."""
    return row.cells | {"source": "; ".join(filter(None, (row.text("source"), kind)))}
