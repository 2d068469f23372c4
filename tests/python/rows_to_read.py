"""Rows that several tests of their reading begin with, and what is taken to have run them."""

from __future__ import annotations

import csv
from typing import Any

from scalewright import reproductions
from scalewright.reproductions.conventions import conventions_of
from scalewright.reproductions.programs import with_program
from scalewright.reproductions.reading import Row

RUN = {
    "paper": "a table",
    "hardware": "DGX H100",
    "devices": "64",
    "model": "Llama 2 7B",
    "sequence": "4096",
    "global_batch": "128",
    "micro_batch": "1",
    "tensor": "1",
    "pipeline": "1",
    "zero": "1",
    "recompute": "none",
    "dtype": "bf16",
    "metric": "tokens/s/GPU",
    "value": "1000",
    "unit": "tokens/s",
}


def row(**cells: str) -> Row:
    return Row("rows.csv", 1, RUN | cells)


def priced(tmp_path, **cells: str) -> dict[str, object]:
    file = tmp_path / "rows.csv"
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerows([list(RUN | cells), list((RUN | cells).values())])
    return reproductions.run(rows_path=file)["rows"][0]


LLAMA = {"norm": "rmsnorm"}
MIXTURE = {"norm": "rmsnorm", "name": "qwen3-30b-a3b", "experts": {"experts": 128}}
GPT = {"norm": "layernorm"}


def taken(cells: dict[str, str], device: str, model: dict[str, Any] | None = None) -> str | None:
    """Return the profile that a row is given."""
    row = Row("own.csv", 2, cells)
    return with_program(row, conventions_of(row), device, model or LLAMA)[0].software
