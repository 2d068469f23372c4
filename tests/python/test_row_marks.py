"""Are tables read whose columns no comma parts, and are headings named that mean nothing?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewright import reproductions
from scalewright.errors import InvalidError
from scalewright.reproductions.collectives import holds_collectives
from scalewright.reproductions.kernels import holds_kernels, run
from scalewright.reproductions.marks import decimals_of, is_unsure, with_points
from scalewright.reproductions.metrics import ungrouped
from scalewright.reproductions.reading import read_rows

if TYPE_CHECKING:
    from pathlib import Path

HEAD = ("model", "system", "gpus", "dp", "seq", "gbs", "mbs", "dtype", "metric", "value", "unit")
RUN = ("Llama 2 7B", "DGX H100", "64", "64", "4096", "512", "1", "bf16")


def of(folder: Path, text: str, name: str = "table.csv") -> list[dict[str, Any]]:
    """Return what a file comes to."""
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return reproductions.run(rows_path=file)["rows"]


def lines(mark: str, *figures: tuple[str, str, str]) -> str:
    """Return a table of one run whose columns a mark parts."""
    return "\n".join(mark.join(cells) for cells in (HEAD, *((*RUN, *f) for f in figures)))


@pytest.mark.parametrize("mark", [";", "\t", ","])
@pytest.mark.parametrize("told", [True, False])
def test_columns_may_have_any_usual_mark_between_them(
    tmp_path: Path, mark: str, told: bool
) -> None:
    text = (f"sep={mark}\n" if told else "\ufeff") + lines(mark, ("MFU", "60", "%"))
    (row,) = of(tmp_path, text)
    assert (row["status"], row["published"]) == ("searched", 60.0)
    assert row["line"] == (3 if told else 2)


def test_quoted_cells_and_a_remark_stand_in_a_file_of_semicolons(tmp_path: Path) -> None:
    text = (
        "# from a sheet, of 2025\n"
        "System;Model;Seq;Setup;Precision;Activation checkpointing;Iteration time (s)\n"
        '"8x DGX H100 (64 GPUs)";Llama-2 70B;4k;"TP8, PP4; DP2 mbs1 gbs 128";bf16;'
        "selective;12,5\n"
    )
    (row,) = of(tmp_path, text)
    assert (row["published"], row["device_count"]) == (12.5, 64)
    assert row["plan"]["pipeline"] == 4


@pytest.mark.parametrize(
    ("value", "read"),
    [("1,300", 1.3), ("1300,0 ms", 1.3), ("1.300,0 ms", 1.3), ("1,3 s", 1.3), ("1.300", 1300.0)],
)
def test_commas_before_decimals_make_points_groups(tmp_path: Path, value: str, read: float) -> None:
    first, second = of(tmp_path, lines(";", ("MFU", "40,5", "%"), ("step time", value, "s")))
    assert first["published"] == 40.5
    assert second["published"] == pytest.approx(read)


def test_a_number_that_may_be_either_of_two_is_refused(tmp_path: Path) -> None:
    (row,) = of(tmp_path, lines(";", ("step time", "1,300", "s")))
    assert "value: got '1,300'; allowed: a number without the mark" in row["reason"]
    # tabs say nothing of decimals, and points before them prove what commas are
    (tabbed,) = of(tmp_path, lines("\t", ("throughput", "830,000", "tokens/s")))
    point, rate = of(
        tmp_path, lines(";", ("MFU", "40.5", "%"), ("throughput", "830,000", "tokens/s"))
    )
    assert tabbed["published"] == rate["published"] == 830000.0
    assert point["published"] == 40.5


def test_a_table_of_markdown_says_what_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="got a table of Markdown; allowed: columns with commas"):
        of(tmp_path, "| Hardware | GPUs | Model | MFU |\n|---|---|---|---|\n| H100 | 8 | x | 5 |")


@given(st.integers(1000, 10**9 - 1), st.sampled_from("'_,\u2019"))
def test_a_mark_between_thousands_changes_no_number(number: int, mark: str) -> None:
    assert ungrouped(f"{number:,}".replace(",", mark)) == str(number)


@given(st.floats(0.01, 1e6))
def test_a_number_with_a_comma_is_that_with_a_point(number: float) -> None:
    text = f"{number:.2f}"
    cell = text.replace(".", ",")
    decimals = decimals_of([[cell]])
    assert decimals == {","}
    assert with_points(f"~{cell} ms", decimals) == f"~{text} ms"
    assert not is_unsure(cell)


def test_kernels_and_collectives_are_known_by_any_mark(tmp_path: Path) -> None:
    kernels, collectives = tmp_path / "k.csv", tmp_path / "c.csv"
    kernels.write_text("system;dtype;m;n;k;latency_us\nH100;bf16;4096;4096;4096;220,5\n")
    collectives.write_text(
        "system\tcollective\tranks\tbytes\ttime (us)\ndgx-h100\tall_reduce\t8\t1073741824\t3300\n"
    )
    assert holds_kernels(kernels)
    assert not holds_kernels(collectives)
    assert holds_collectives(collectives)
    (row,) = run(rows_path=kernels)["rows"]
    assert row["measured_s"] == pytest.approx(220.5e-6)


def test_headings_that_mean_nothing_are_named_where_a_column_is_missing(tmp_path: Path) -> None:
    (row,) = of(tmp_path, "Cluster,# GPUs,Architecture,Sockets,MFU\nDGX H100,64,GPT,2,40")
    assert row["reason"].startswith("model: got nothing")
    assert "headings not understood: 'Architecture', 'Sockets'" in row["reason"]
    # a blank cell of a column that is there is the row's own fault
    (blank,) = of(tmp_path, "Cluster,# GPUs,Model,Sockets,MFU\nDGX H100,64,,2,40")
    assert "not understood" not in blank["reason"]
    file = tmp_path / "none.csv"
    file.write_text("modele,materiel,debit\nllama2-7b,H100,5\n", encoding="utf-8")
    with pytest.raises(InvalidError, match="not understood: 'modele', 'materiel', 'debit'"):
        read_rows(file)
