"""What does a layout in words say beside its degrees, and is the rest of it named?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewright import reproductions
from scalewright.reproductions.layout_words import parse_layout

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "model,system,gpus,dtype"
RUN = "Llama 2 7B,DGX H100,64,bf16"


def priced(folder: Path, head: str, *lines: str) -> list[dict[str, Any]]:
    """Return what a table comes to."""
    file = folder / "table.csv"
    text = "\n".join([f"{HEAD},{head}", *(f"{RUN},{line}" for line in lines)])
    file.write_text(text, encoding="utf-8")
    return reproductions.run(rows_path=file)["rows"]


def cells(text: str) -> dict[str, str]:
    """Return the cells of a layout but for the degrees that it leaves out."""
    told = parse_layout("layout", text).cells
    return {column: cell for column, cell in told.items() if cell != "1" or column == "zero"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "FSDP mbs2 gbs 256 seq 8192",
            {
                "zero": "fsdp",
                "micro_batch": "2",
                "global_batch": "256",
                "sequence": "8192",
            },
        ),
        (
            "TP8/PP4/DP16, SP, ZeRO-1, full recompute, mbs2, gbs512",
            {
                "tensor": "8",
                "pipeline": "4",
                "data": "16",
                "sequence_parallel": "yes",
                "zero": "zero-1",
                "recompute": "full",
                "micro_batch": "2",
                "global_batch": "512",
            },
        ),
        (
            "TP 8 PP 4 interleave 5, grad accum 32",
            {"tensor": "8", "pipeline": "4", "interleave": "5", "accumulation": "32"},
        ),
        (
            "TP8 PP2, 5 virtual stages, 16 micro-batches",
            {"tensor": "8", "pipeline": "2", "interleave": "5", "accumulation": "16"},
        ),
        (
            "tensor 8, pipeline 4, micro batch size 2, global batch size 512",
            {"tensor": "8", "pipeline": "4", "micro_batch": "2", "global_batch": "512"},
        ),
        ("tp8 GBS 4M tokens", {"tensor": "8", "global_batch": "4m tokens"}),
        ("TP8, 8k context", {"tensor": "8", "sequence": "8192"}),
        ("context length 32K, CP8", {"context": "8", "sequence": "32768"}),
        ("TP8, sequence length of 4,096", {"tensor": "8", "sequence": "4096"}),
        ("TP8, context 8", {"tensor": "8", "context": "8"}),
        ("TP8 selective recompute", {"tensor": "8", "recompute": "selective"}),
        ("TP8 + activation checkpointing", {"tensor": "8", "recompute": "full"}),
        ("TP8, recompute=selective", {"tensor": "8", "recompute": "selective"}),
        ("TP8, no recompute", {"tensor": "8", "recompute": "none"}),
        ("TP8 w/o activation checkpointing", {"tensor": "8", "recompute": "none"}),
        ("FSDP2 + full AC", {"zero": "fsdp2", "recompute": "full"}),
        ("TP8, distributed optimizer, no SP", {"tensor": "8", "sequence_parallel": "no"}),
        ("TP8 PP4, no interleaving", {"tensor": "8", "pipeline": "4"}),
        ("TP8, seq. len. 8192", {"tensor": "8", "sequence": "8192"}),
        ("TP8 bf16", {"tensor": "8", "dtype": "bf16"}),
    ],
)
def test_words_of_a_layout_fill_the_columns_that_they_speak_of(
    text: str, wanted: dict[str, str]
) -> None:
    found = cells(text)
    found.pop("zero", None) if "zero" not in wanted else None
    assert found == wanted
    assert parse_layout("layout", text).left == ""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("tp8 pp4 gbs 1k", "gbs 1k"),
        ("HSDP 8x64", "8x64"),
        ("Ulysses SP=8 + ZeRO-3", "ulysses sp=8"),
        ("TP8, batch size 512", "batch 512"),
        ("TP8 mbs 2 mbs 4", ""),
        ("TP8 frobnicated", "frobnicated"),
        ("TP8, no full recompute", "recompute"),
        ("TP8, recompute 12 layers", "recompute 12 layers"),
        ("TP8, checkpointing every 2 layers", "checkpointing every 2 layers"),
        ("TP8 seq 4096-8192", "seq 4096-8192"),
        ("TP8 (attention only)", "attention"),
        ("3D parallelism (TP=8, PP=4)", ""),
        ("TP: 8 | PP: 4 | DP: 16", ""),
        ("tp8_pp4_dp16", ""),
        ("4-way tensor, 2-way pipeline", ""),
    ],
)
def test_what_a_layout_says_and_nobody_understands_is_left(text: str, left: str) -> None:
    assert parse_layout("layout", text).left == left


def test_a_batch_of_a_thousand_or_1024_is_none_of_one(tmp_path: Path) -> None:
    (row,) = priced(tmp_path, "seq,layout,MFU", "4096,TP8 mbs 1 gbs 1k,40")
    assert row["status"] == "searched"
    assert "layout: 'gbs 1k' passed over" in row["note"]
    assert "global batch of" in row["note"]


def test_a_layout_is_priced_as_its_columns_are(tmp_path: Path) -> None:
    words, columns = priced(
        tmp_path,
        "layout,tp,pp,cp,dp,seq,gbs,mbs,zero,recompute,seq_parallel,step time (s)",
        '"TP8/PP2/DP4, SP, ZeRO-1, full recompute, mbs1, gbs64, seq 8192",,,,,,,,,,,9',
        ",8,2,1,4,8192,64,1,1,full,yes,9",
    )
    assert words["status"] == columns["status"] == "priced"
    assert (words["plan"], words["predicted"]) == (columns["plan"], columns["predicted"])
    assert "passed over" not in words["note"]


def test_columns_come_before_the_words_of_a_layout(tmp_path: Path) -> None:
    (row,) = priced(tmp_path, "seq,gbs,mbs,layout,MFU", "2048,64,1,TP8 gbs 128 seq 4k mbs 1,40")
    assert "global_batch 64 taken, its own column" in row["note"]
    assert "sequence 2048 taken, its own column" in row["note"]
    assert "micro_batch" not in row["note"]


def test_accumulation_without_a_micro_batch_is_said_to_count_for_nothing(tmp_path: Path) -> None:
    (row,) = priced(tmp_path, "seq,layout,MFU", "4096,TP8 PP2 DP4 grad accum 32,40")
    assert "accumulation 32 passed over: the row says no micro-batch" in row["note"]


@given(st.integers(1, 4096), st.integers(1, 64), st.sampled_from([1024, 4096, 8192]))
def test_spellings_of_one_batch_and_length_agree(batch: int, micro: int, length: int) -> None:
    spelt = [
        f"TP8 mbs{micro} gbs{batch} seq{length}",
        f"tp=8, mbs={micro}, gbs={batch}, seq_len={length}",
        f"TP8, micro-batch {micro}, global batch {batch}, {length // 1024}k context",
        f"TP8, micro batch size of {micro}, global batch size {batch:,}, sequence length {length}",
    ]
    wanted = {
        "micro_batch": str(micro),
        "global_batch": str(batch),
        "sequence": str(length),
    }
    for text in spelt:
        said = parse_layout("layout", text)
        assert {column: said.cells.get(column) for column in wanted} == wanted
        assert said.left == ""
