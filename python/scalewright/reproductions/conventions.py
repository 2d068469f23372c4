"""By which conventions does a paper print its figures, and what did its software do?"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.catalog.layers import built_in_root
from scalewright.catalog.toml_file import Table, read_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scalewright.reproductions.reading import Row

_FILE = "conventions.toml"
"""What spellings mean and what holds of all papers."""
_FOLDER = "conventions"
"""A file for each paper or hand, read in alphabetical order: the first entry that matches holds."""


@dataclass(frozen=True)
class Conventions:
    """What a paper says beside its tables."""

    known: bool
    """False where no entry matches, so that defaults hold."""
    flops: str = "model"
    recomputed: str = "as_run"
    training: dict[str, Any] = field(default_factory=dict[str, Any])
    space: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    columns: dict[str, str] = field(default_factory=dict[str, str])
    software: str | None = None
    """The software profile of the catalog, where the source says what ran."""
    library: str | None = None
    """The profile of a library's release that is laid over it."""
    peak: str | None = None
    """Of which peak MFU is a share: a format of the device's, or a rate; absent: the run's own."""
    batches_per_device: tuple[int, ...] = ()
    """Sequences a device that are tried where the paper does not say its batch."""
    accumulates: bool = True
    """False where a step is one micro-batch a replica unless the row says otherwise."""
    pieces: int | None = None
    """Sequences of a micro-batch into which a pipeline cuts the batch of a replica."""
    source: tuple[str, ...] = ()
    """What the conventions rest on, line by line."""


def conventions_of(row: Row) -> Conventions:
    """Return the conventions of the row's paper."""
    said = book()
    paper, table = row.text("paper"), row.text("table")
    common: dict[str, list[Any]] = said["any"]["space"]
    for entry in said["papers"]:
        if matches(paper, entry["match"]):
            flops = entry["flops"]
            for pattern, other in entry.get("table_flops", {}).items():
                flops = other if matches(table, [pattern]) else flops
            columns: dict[str, str] = dict(entry.get("columns", {}))
            space: dict[str, list[Any]] = dict(entry["space"])
            software: str | None = entry.get("software")
            library: str | None = entry.get("library")
            training: dict[str, Any] = dict(entry["training"])
            for run in entry.get("runs", ()):
                if all(_like(row.text(cell), said) for cell, said in run["where"].items()):
                    columns |= run.get("columns", {})
                    space |= run.get("space", {})
                    software = run.get("software", software)
                    library = run.get("library", library)
                    flops = run.get("flops", flops)
                    training |= run.get("training", {})
            return Conventions(
                known=True,
                flops=flops,
                recomputed=entry.get("recomputed", "as_run"),
                training=training,
                space=space,
                columns=columns,
                software=software,
                library=library,
                batches_per_device=tuple(entry.get("batches_per_device", ())),
                source=tuple(entry.get("source", ())),
            )
    return Conventions(known=False, space=common)


def skip_reason(row: Row) -> str | None:
    """Say why a row is no figure of a training step, where its columns show it."""
    for entry in book()["skips"]:
        reason: str = entry["reason"]
        tests = {key: patterns for key, patterns in entry.items() if key != "reason"}
        if all(matches(row.text(column), patterns) for column, patterns in tests.items()):
            return reason
    return None


def printed_ratios() -> list[Table]:
    """Return the metrics that are a ratio of two runs, with what makes the other run."""
    return book()["ratios"]


def spelt(kind: str, text: str) -> Any | None:  # noqa: ANN401
    """Return what a spelling of a `dtypes`, `recompute` or `metrics` value means."""
    meanings = book()[kind]
    if kind == "dtypes":
        text = "".join(c for c in text if c.isalnum())
    return meanings.get(text.strip().casefold())


def matches(text: str, patterns: Iterable[str]) -> bool:
    """Say whether a text is like one of the patterns, capitals apart."""
    folded = text.casefold()
    return any(fnmatchcase(folded, pattern.casefold()) for pattern in patterns)


def _like(text: str, said: str | list[str]) -> bool:
    return matches(text, [said] if isinstance(said, str) else said)


@cache
def book() -> Table:
    """Return what spellings mean, what holds of all papers, and the entries of papers."""
    root = built_in_root()
    files = sorted((root / _FOLDER).iterdir(), key=lambda file: file.name)
    papers = [entry for file in files for entry in read_table(file)["papers"]]
    return read_table(root / _FILE) | {"papers": papers}
