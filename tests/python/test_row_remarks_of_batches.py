"""What do remarks say of a batch, and which optimizers is memory refused for?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rows_to_read import priced
from scalewright.reproductions.guesses import accumulated
from scalewright.reproductions.reading import Row

if TYPE_CHECKING:
    from pathlib import Path


def taken(**cells: str) -> str:
    """Return the accumulation of a row of tokens a second."""
    row = Row("own.csv", 2, {"metric": "tokens/s", **cells})
    return accumulated(row)[0].text("accumulation")


@pytest.mark.parametrize(
    "remarks", ["gradient accumulation 16", "grad_accum=16", "gradient accumulation steps of 16"]
)
def test_remarks_tell_the_accumulation_of_a_rate(remarks: str) -> None:
    assert taken(source=remarks) == "16"


def test_remarks_on_accumulation_do_not_count_where_a_batch_is_said_or_they_disagree() -> None:
    said = "gradient accumulation 16"
    assert taken(source=said, global_batch="64") == ""
    assert taken(source=said, accumulation="8") == "8"
    assert taken(source=f"{said} or gradient accumulation 32") == ""
    assert taken(source="gradient accumulation 16k") == ""


def test_a_time_needs_the_batch_itself() -> None:
    assert taken(source="gradient accumulation 16", metric="step time") == ""


@pytest.mark.parametrize("optimizer", ["LOMO", "SGD", "GaLore", "Adafactor"])
def test_memory_of_an_optimizer_with_less_state_than_adam_is_refused(
    tmp_path: Path, optimizer: str
) -> None:
    memory = {"metric": "peak memory", "value": "40", "unit": "GB"}
    found = priced(tmp_path, **memory, table=f"Table 2, {optimizer}")
    assert "keeps less than Adam" in str(found["reason"])
    assert not priced(tmp_path, **memory, table="Table 2, AdamW").get("reason")
    assert not priced(tmp_path, table=f"Table 2, {optimizer}").get("reason")
