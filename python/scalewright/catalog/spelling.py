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
_CODE = re.compile(r"[a-z][0-9]{1,4}")
_SIZE = re.compile(r"([0-9]{2,3})g(?:i?b)?")
_SIZES = re.compile(
    r"(?<![0-9.,])([0-9]{2,3})\s?g(?:i?b)?(?![a-z/])"
    r"(?!\s{0,2}(?:of\s)?(?:host|cpu|system|ddr|lpddr|d?ram\b|nvme|ssd|storage|shared))"
)
"""Sizes of memory that a text does not say of the host's or of disks."""
_BOARD = "pcie"
_BOARD_IN = re.compile(
    r"pci-?e(?![\s-]{0,2}(?:gen|v|express)?[\s.-]{0,2}[3-6](?:\.[0-9])?(?![0-9g]))"
    r"(?![\s-]{0,2}(?:x[0-9]|switch|host|link))"
)
"""A board for such a slot: no generation or width of the link follows."""


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


class _UsualSystem(NamedTuple):
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
    narrower comes before what is wider: `h100 pcie` before `h100`. Case counts nowhere; spaces and
    dashes not inside what begins a word of the text, so that `with 100 Gb/s` names no H100. A size
    is that of the device: the first which is not said of host memory. `pcie` is a board's, not a
    generation of links.
    """
    found = _meant(text)
    return found.system if found else None


def usual_words() -> frozenset[str]:
    """Return the words by which `usual_system` knows devices."""
    return frozenset(word.removeprefix(_ALONE) for usual in _usual() for word in usual.words)


def is_usual_server(text: str) -> bool:
    """Say whether a text names a device only, for whose usual server `usual_system` stands.

    What such a text says of nodes and their network then counts before what that server has.
    """
    found = _meant(text)
    return found is not None and found.told


def _meant(text: str) -> _UsualSystem | None:
    folded = text.casefold()
    parts = re.split(r"[^a-z0-9.-]+", folded)
    pieces = [piece for part in parts for piece in (part.replace("-", ""), *part.split("-"))]
    lone = {_COUNT.sub("", piece) for piece in pieces}
    size = next((found[1] for found in _SIZES.finditer(folded)), None)
    for usual in _usual():
        if all(_stands(word, folded, lone, size) for word in usual.words):
            return usual
    return None


def _stands(word: str, folded: str, lone: set[str], size: str | None) -> bool:
    """Say whether a word of the table stands in a text."""
    if word[0] == _ALONE:
        return word[1:] in lone
    if (wanted := _SIZE.fullmatch(word)) is not None:
        return wanted[1] == size
    if word == _BOARD:
        return "sxm" not in folded and _BOARD_IN.search(folded) is not None
    return _pattern(word).search(folded) is not None


@cache
def _pattern(word: str) -> re.Pattern[str]:
    """Find a word inside one of a text, or from the start of one over spaces and dashes."""
    # `a 100` and `80 GB 200` are no A100 and no GB200
    between = "-?" if _CODE.fullmatch(word) else r"[\s-]{0,2}"
    spread = between.join(re.escape(letter) for letter in word)
    start = r"(?<![a-z0-9])" + (r"(?<![0-9][\s-])" if word.startswith("gb") else "")
    end = "(?![0-9])" if word[-1].isdigit() else ""
    return re.compile(rf"(?:{re.escape(word)}|{start}{spread}){end}")


@cache
def _usual() -> tuple[_UsualSystem, ...]:
    text = (built_in_root() / _USUAL).read_text(encoding="utf-8")
    rows = csv.DictReader(io.StringIO(text, newline=""))
    return tuple(
        _UsualSystem(tuple(r["words"].split()), r["system"], r["told"] == "yes") for r in rows
    )


def _spelling(row: dict[str, str]) -> Spelling:
    count = row["devices_per_node"]
    return Spelling(
        text=row["spelling"],
        system=row["system"] or None,
        device=row["device"] or None,
        devices_per_node=int(count) if count else None,
        note=row["note"],
    )
