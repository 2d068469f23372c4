"""Which system of the catalog does a paper's spelling of its hardware mean?"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from scalewright.catalog.layers import built_in_root

_FILE = "hardware_names.csv"
_USUAL = "usual_systems.csv"
_ALONE = "="
"""Stands before a word that must not be part of a longer one: `=t4` is not in `GPT4`."""
_COUNT = re.compile(r"^[0-9]{1,6}x(?=[a-z])")


@dataclass(frozen=True)
class Spelling:
    """How one source writes its hardware."""

    text: str
    """As written in the source."""
    system: str | None
    """Catalog name of the system; none where the text does not mean one cluster."""
    device: str | None
    """Catalog name of the device, where it is known."""
    devices_per_node: int | None
    """Devices in one chassis."""
    note: str
    """What to mind: cores or chips, limits of the match, or why there is no system."""


class _Usual(NamedTuple):
    words: tuple[str, ...]
    system: str
    told: bool
    """The words name a device, and a text may tell what its servers have otherwise."""


def spellings() -> dict[str, Spelling]:
    """Return every known spelling of published hardware by its text."""
    text = (built_in_root() / _FILE).read_text(encoding="utf-8")
    rows = csv.DictReader(io.StringIO(text, newline=""))
    return {row["spelling"]: _spelling(row) for row in rows}


def usual_system(text: str) -> str | None:
    """Return the usual system of the device that a text names, if it names one.

    The first line of the table counts of which all words stand in the text, so that what is
    narrower comes before what is wider: `h100 pcie` before `h100`. Case, spaces and dashes do not
    count.
    """
    found = _meant(text)
    return found.system if found else None


def is_usual_server(text: str) -> bool:
    """Say whether a text names a device only, for whose usual server `usual_system` stands.

    What such a text says of nodes and their network then counts before what that server has.
    """
    found = _meant(text)
    return found is not None and found.told


def _meant(text: str) -> _Usual | None:
    folded = "".join(text.casefold().replace("-", " ").split())
    parts = re.split(r"[^a-z0-9.-]+", text.casefold())
    pieces = [piece for part in parts for piece in (part.replace("-", ""), *part.split("-"))]
    lone = {_COUNT.sub("", piece) for piece in pieces}
    for usual in _usual():
        if all(word[1:] in lone if word[0] == _ALONE else word in folded for word in usual.words):
            return usual
    return None


@cache
def _usual() -> tuple[_Usual, ...]:
    text = (built_in_root() / _USUAL).read_text(encoding="utf-8")
    rows = csv.DictReader(io.StringIO(text, newline=""))
    return tuple(_Usual(tuple(r["words"].split()), r["system"], r["told"] == "yes") for r in rows)


def _spelling(row: dict[str, str]) -> Spelling:
    count = row["devices_per_node"]
    return Spelling(
        text=row["spelling"],
        system=row["system"] or None,
        device=row["device"] or None,
        devices_per_node=int(count) if count else None,
        note=row["note"],
    )
