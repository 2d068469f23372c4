"""What do remarks say of a batch, and which optimizers is memory refused for?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rows_to_read import priced
from scalewright.reproductions.batches import of_replica
from scalewright.reproductions.conventions import conventions_of
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
    assert taken(source="gradient accumulation 16,384") == ""
    assert taken(source="gradient accumulation 16, sequences of 4,096") == "16"


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


@pytest.mark.parametrize("remarks", ["accum 2", "accumulation 2", "torch 2.6, accum_steps=2"])
def test_remarks_may_say_accumulation_alone(remarks: str) -> None:
    assert taken(source=remarks) == "2"
    assert taken(source=remarks, metric="peak memory") == "2"


def torchtitan(tmp_path: Path, **cells: str) -> dict[str, object]:
    """Return a row of torchtitan's with two stages, of which four replicas are left."""
    run = {"model": "Llama 3 8B", "devices": "8", "global_batch": "", "zero": "fsdp", **cells}
    row = {"pipeline": "2", "source": "torchtitan of 2025", **run}
    return priced(tmp_path, **row)


@pytest.mark.parametrize("said", ["bs=8", "LBS 8", "batch size: 8"])
def test_a_local_batch_of_torchtitan_is_a_replicas_and_cut_by_its_pipeline(
    tmp_path: Path, said: str
) -> None:
    local = torchtitan(tmp_path, micro_batch=said)
    whole = torchtitan(tmp_path, micro_batch="1", global_batch="32")
    assert (local["plan"], local["predicted"]) == (whole["plan"], whole["predicted"])
    assert "8 is a replica's: micro-batches of 1 taken" in str(local["note"])


def test_a_column_may_call_it_so() -> None:
    cells = {"pipeline": "2", "micro_batch": "8", "paper": "a table"}
    conventions = replace(conventions_of(Row("own.csv", 2, cells)), pieces=1)
    for heading, read in (("Local batch size", "1"), ("Micro-batch size", "8")):
        row = Row("own.csv", 2, cells, {"micro_batch": heading})
        assert of_replica(row, conventions, 8)[0].text("micro_batch") == read


def test_what_is_called_a_micro_batch_or_has_no_pipeline_is_not_cut(tmp_path: Path) -> None:
    micro = torchtitan(tmp_path, micro_batch="2", global_batch="32")
    assert micro["plan"]["micro_batch"] == 2
    alone = torchtitan(tmp_path, micro_batch="bs=2", pipeline="1")
    assert alone["plan"]["micro_batch"] == 2


def test_remarks_tell_a_count_of_micro_batches_from_their_size(tmp_path: Path) -> None:
    said = "torchtitan of 2025; μb=2 is a count of microbatches"
    counted = torchtitan(tmp_path, micro_batch="μb=2", source=said)
    whole = torchtitan(tmp_path, micro_batch="1", global_batch="8")
    assert counted["predicted"] == whole["predicted"]
    open_count = torchtitan(tmp_path, micro_batch="μb=2")
    assert "a size or a number of micro-batches" in str(open_count["reason"])
