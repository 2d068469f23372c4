"""Which program ran a row whose paper is not known: does a name, the sharding, the device tell?"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.catalog.layers import built_in_root
from scalewright.catalog.toml_file import Table, read_table
from scalewright.reproductions.conventions import matches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalewright.reproductions.conventions import Conventions
    from scalewright.reproductions.reading import Row

_FILES = ("programs.toml", "habits.toml")
_HABITS = (
    *("degrees", "overlaps", "shardings", "hosts", "formats", "counts", "peaks"),
    *("ages", "scores", "repeats", "lengths", "stages", "pieces", "optimizers", "kernels"),
    "runs",
)
"""Kinds of what any program of a year or a library did, in the order in which they are asked."""
_NAMING = ("program", "framework", "paper", "table", "source", "zero")
"""Columns whose text may name a program."""
_YEAR = re.compile(r"(?<![0-9.])20[12][0-9](?![0-9]|\.[0-9]{4})")
"""A year, not 2,048 tokens."""
_NO_PROGRAM = re.compile(
    r"(?:https?://)?(?:www\.)?huggingface\.co/(?!docs)|(?<![a-z])mistral[-_ ]?nemo(?![a-z])"
    r"|(?<![a-z])lightning[- ]attention(?![a-z])|megatron[- ](?:style|like)(?![a-z])"
)
"""Where cards of models of any program lie, things of its name, and what is only like one."""
_ARXIV = re.compile(r"(?<![0-9])([0-9]{2})(?:0[1-9]|1[0-2])\.[0-9]{4,5}(?![0-9])")
"""A number of arXiv: year, month and place, as 2312.12391 of December 2023."""
_ABSENT_BEFORE = re.compile(
    r"(?:^|[^a-z0-9])(?:(?:no|not|non|without|w/o)[ -](?:per-[a-z]{1,9} )?|with (?:and|or) )$"
)
_ABSENT_BEHIND = re.compile(
    r"(?:[ :=(]{1,2}(?:off|disabled|false|unstated|unknown|not (?:stated|said|used|given|printed))"
    r"|[:=] ?no)(?![a-z0-9])"
)
"""What says of a word beside it that the thing was not there, or that nothing says so.

`with and without X` names runs of both kinds, and tells of none which it is.
"""
_CONTAINER = re.compile(
    r"(?:nemo|container|pytorch)[ :/-]{0,2}(2[0-9])\.(?:0[1-9]|1[0-2])(?![0-9])"
)
"""A container of NVIDIA's, as NeMo 24.07 of July 2024."""


def with_program(
    row: Row, conventions: Conventions, device: str, model: dict[str, Any]
) -> tuple[Conventions, tuple[str, ...]]:
    """Complete the conventions of a row by those of its class of programs, where they lack.

    Nothing changes where the row names a profile or its paper is known.

    Args:
        row: The row.
        conventions: What is known of its paper.
        device: The catalog's name of the device that ran it.
        model: The fields of its model.

    Returns:
        The conventions, and what was taken and why, in words.
    """
    if row.text("software") or conventions.known:
        return conventions, ()
    said: tuple[str, ...] = ()
    # what a class of programs tells comes before what holds of any
    common = conventions.space
    conventions = replace(conventions, space={})
    if (found := _first("programs", row, device, model)) is not None:
        why, entry = found
        conventions = _completed(conventions, entry)
        profile = conventions.software or "fused kernels launched ahead of the device"
        said += (f"{why}: software taken as {profile}",)
    for kind in _HABITS:
        taken = conventions.software or ""
        if (found := _first(kind, row, device, model, taken)) is not None:
            why, entry = found
            before, conventions = conventions, _completed(conventions, entry)
            if "instead" in entry and conventions.software == before.software:
                continue
            said += (f"{why}: {entry['means']}",)
    return replace(conventions, space={**common, **conventions.space}), said


def _completed(conventions: Conventions, entry: Table) -> Conventions:
    """Add what an entry tells to what is known; what is known stays."""
    instead = entry.get("instead", {})
    profiles = (conventions.software or entry.get("software") or "").split("+")
    profiles = [*filter(None, profiles), *filter(None, [entry.get("beside")])]
    return replace(
        conventions,
        software="+".join(instead.get(name, name) for name in profiles) or None,
        flops=conventions.flops if conventions.known else entry.get("flops", conventions.flops),
        peak=conventions.peak or entry.get("peak"),
        accumulates=conventions.accumulates and entry.get("accumulates", True),
        pieces=conventions.pieces or entry.get("pieces"),
        training={**entry.get("training", {}), **conventions.training},
        space={**conventions.space, **entry.get("space", {})},
        source=(*conventions.source, entry["source"]),
    )


def _first(
    kind: str, row: Row, device: str, model: dict[str, Any], taken: str = ""
) -> tuple[str, Table] | None:
    """Return the first entry of a kind that is the row's, with the reason, if there is one.

    Args:
        kind: What the entries tell of.
        row: The row.
        device: The catalog's name of the device that ran it.
        model: The fields of its model.
        taken: The software profile that has been taken.
    """
    for entry in _book()[kind]:
        if "taken" in entry and not matches(taken, entry["taken"]):
            continue
        if (why := _why(entry, row, device, model)) is not None:
            return why, entry
    return None


def _why(entry: Table, row: Row, device: str, model: dict[str, Any]) -> str | None:
    """Say why an entry is the row's, or none where it is not."""
    if not _holds(entry, row, device, model):
        return None
    if "named" not in entry:
        if "zero" in entry:
            return f"the row says '{row.text('zero')}'"
        if "schedule" in entry:
            return f"the row says '{row.text('schedule')}'"
        if "interleave" in entry:
            return "the row tells of no virtual stages"
        if "document" in entry:
            return "the row names no program"
        if "metrics" in entry and "until" not in entry:
            return f"the metric is '{row.text('metric')}'"
        return _when(row, device) if "until" in entry else f"on {device}"
    said = _said(row)
    spoken = [_spoken(words, said) for words in (entry["named"], *entry.get("says", ()))]
    if None in spoken:
        return None
    return "the row names " + " and ".join(word for word in spoken if word)


def _holds(entry: Table, row: Row, device: str, model: dict[str, Any]) -> bool:
    """Say whether all conditions of an entry hold but those on words."""
    year = _year(row, device) if "until" in entry or "since" in entry else None
    patterned = (
        ("devices", device),
        ("zero", row.text("zero")),
        ("models", str(model.get("name", ""))),
        ("dtypes", row.text("dtype").casefold()),
        ("metrics", row.text("metric").casefold()),
        ("recompute", row.text("recompute").casefold()),
        ("tensor", row.text("tensor")),
        ("pipeline", row.text("pipeline")),
        ("interleave", row.text("interleave")),
        ("schedule", row.text("schedule").casefold()),
    )
    return (
        all(key not in entry or matches(text, entry[key]) for key, text in patterned)
        and entry.get("norm") in {None, str(model.get("norm", "layernorm"))}
        and entry.get("experts") in {None, bool(model.get("experts"))}
        and ("document" not in entry or _is_of_document(row))
        and ("beyond" not in entry or (row.count("sequence") or 0) > entry["beyond"])
        and ("until" not in entry or (year is not None and year <= entry["until"]))
        and ("since" not in entry or (year is not None and year >= entry["since"]))
    )


def _is_of_document(row: Row) -> bool:
    """Say whether a row names a paper; the name of its file, which stands for none, is no such."""
    return row.text("paper") not in ("", row.file, row.file.rpartition(".")[0])


def _said(row: Row) -> str:
    """Return the words of a row that may name a program."""
    return _NO_PROGRAM.sub(" ", " | ".join(row.text(column) for column in _NAMING).casefold())


def _spoken(words: Sequence[str], said: str) -> str | None:
    """Return the first of some words that a text has and does not deny, if it has one."""
    return next((word for word in words if _has(word, said)), None)


def _has(word: str, said: str) -> bool:
    """Say whether a text has a word where it is not said to be absent: `no X`, `X off`."""
    for found in re.finditer(rf"(?<![a-z0-9_]){re.escape(word)}(?![a-z0-9])", said):
        before, behind = said[: found.start()], said[found.end() :]
        if not (_ABSENT_BEFORE.search(before) or _ABSENT_BEHIND.match(behind)):
            return True
    return False


def usual_sequence(row: Row, model: str) -> int | None:
    """Return the tokens a sequence of a model's training, or of the program that a row names.

    Args:
        row: The row.
        model: The catalog's name of its model.
    """
    said = _said(row)
    told = (
        entry
        for entry in _book()["sequences"]
        if matches(model, entry.get("models", ["*"]))
        and ("named" not in entry or _spoken(entry["named"], said) is not None)
    )
    return next((int(entry["tokens"]) for entry in told), None)


def year_of(row: Row) -> int | None:
    """Return the last year that a row speaks of, where it speaks of one."""
    said = " | ".join(row.text(column) for column in _NAMING)
    years = [int(year) for year in _YEAR.findall(said)]
    years += [2000 + int(year) for year in _ARXIV.findall(said)]
    years += [2000 + int(year) for year in _CONTAINER.findall(said.casefold())]
    return max(years, default=None)


def _year(row: Row, device: str) -> int | None:
    """Return the last year that a row speaks of, or where it speaks of none its device's."""
    said = _said(row)
    undated = (
        entry["year"]
        for entry in _book()["undated"]
        if matches(device, entry["devices"])
        and ("named" not in entry or _spoken(entry["named"], said) is not None)
    )
    return year_of(row) or next(undated, None)


def _when(row: Row, device: str) -> str:
    """Say of which year a row is, and whence that is known."""
    said = year_of(row)
    return f"the row is of {said}" if said else f"no year is said, on {device} {_year(row, device)}"


@cache
def _book() -> Table:
    """Return the entries by kind, lists that they share in the place of their names."""
    book = {kind: entry for f in _FILES for kind, entry in read_table(built_in_root() / f).items()}
    lists = {**book.pop("words"), **book.pop("boards")}
    for entry in (entry for entries in book.values() for entry in entries):
        for key in ("named", "devices"):
            if isinstance(entry.get(key), str):
                entry[key] = lists[entry[key]]
    return book
