"""Is a figure with a unit of its own turned into its row's, and refused where it is of another?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewright import reproductions
from scalewright.errors import InvalidError
from scalewright.reproductions.units import unit_in, without_spread
from scalewright.reproductions.wide import as_figure

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "model,system,gpus,dp,seq,gbs,mbs,dtype,metric,value,unit"
RUN = "Llama 2 7B,DGX H100,64,64,4096,512,1,bf16"


def figure(value: str, unit: str, metric: str = "throughput") -> tuple[float, str]:
    """Return what a cell of a metric and a unit is read as."""
    found = as_figure({"value": value, "unit": unit, "metric": metric})
    return float(found["value"].strip("<>\u2264\u2265+")), found["unit"]


def priced(folder: Path, *figures: str) -> list[dict[str, Any]]:
    """Return what rows of one run come to."""
    file = folder / "table.csv"
    file.write_text("\n".join([HEAD, *(f"{RUN},{told}" for told in figures)]), encoding="utf-8")
    return reproductions.run(rows_path=file)["rows"]


@pytest.mark.parametrize(
    ("value", "unit", "read"),
    [
        ("1.6M", "tokens/s", 1.6e6),
        ("1.6 M", "tokens/s", 1.6e6),
        ("1.6 million", "tokens/s", 1.6e6),
        ("1.6B", "tokens/s", 1.6e9),
        ("0.83M tokens/s", "tokens/s", 0.83e6),
        ("830k/s", "tokens/s", 830e3),
        ("1.6M", "K tokens/s", 1.6e3),
        ("1.6e6 tok/s", "tokens/s", 1.6e6),
        ("≥830k", "tokens/s", 830e3),
        ("830'000 tokens/s", "tokens/s", 830e3),
        ("30,1k", "tokens/s", 30.1e3),
        ("1,25M tokens/s", "tokens/s", 1.25e6),
        ("30,125k", "tokens/s", 30_125e3),
        ("0.4P", "TFLOP/s", 400.0),
        ("0.4 PFLOP/s", "TFLOP/s", 400.0),
        ("40960M", "GB", 40.96),
        ("45%", "share", 0.45),
        ("0.02 min", "s", 1.2),
    ],
)
def test_a_figure_is_turned_into_the_unit_of_its_row(value: str, unit: str, read: float) -> None:
    number, of = figure(value, unit)
    assert number == pytest.approx(read)
    assert of == unit


@pytest.mark.parametrize(
    "value", ["13k tokens/s/GPU", "13k/GPU", "13,000 per GPU", "13k tok/s per GPU"]
)
def test_a_figure_of_one_device_makes_its_row_one_of_a_device(tmp_path: Path, value: str) -> None:
    assert figure(value, "tokens/s") == (13000.0, "tokens/s/GPU")
    cell, column = priced(
        tmp_path, f'throughput,"{value}",tokens/s', "throughput,13000,tokens/s/GPU"
    )
    assert cell["error"] == column["error"]


@pytest.mark.parametrize(
    ("value", "unit"),
    [
        ("10 samples/s", "tokens/s"),
        ("30 TFLOP/s", "%"),
        ("1.3M", "s"),
        ("1.3 m", "s"),
        ("40 GB", "s"),
        ("13 tokens/min", "tokens/s"),
        ("2G", "tokens/s"),
        ("12 frobs", "tokens/s"),
    ],
)
def test_a_figure_of_another_thing_than_its_row_is_refused_by_name(value: str, unit: str) -> None:
    with pytest.raises(InvalidError, match=rf"value: got '{value}': its unit .* the row's '{unit}"):
        figure(value, unit, "figure")


def test_steps_a_second_under_a_time_are_the_time_of_a_step(tmp_path: Path) -> None:
    rate, time = priced(tmp_path, "step time,0.5 it/s,s", "step time,2,s")
    assert rate["error"] == pytest.approx(time["error"])
    assert "2 s a step taken, of 0.5 steps a second" in rate["note"]


def test_the_refusal_stays_with_its_line(tmp_path: Path) -> None:
    wrong, fine, middle = priced(tmp_path, "MFU,30 TFLOP/s,%", "MFU,30,%", "MFU,30-40 tokens/s,%")
    assert fine["status"] == "searched"
    for row in (wrong, middle):
        assert row["status"] == "skipped"
        assert "is not the row's '%'; allowed: that unit" in row["reason"]


@given(st.sampled_from(["ms", "s", "min"]), st.sampled_from(["us", "ms", "s"]))
def test_turning_a_time_forth_and_back_changes_nothing(cell: str, own: str) -> None:
    there, _ = figure(f"12 {cell}", own, "step_time")
    back, _ = figure(f"{there:.9f} {own}", cell, "step_time")
    assert back == pytest.approx(12.0, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "of", "of_one"),
    [
        ("tokens/s", "tokens", False),
        ("Tokens/sec/GPU", "tokens", True),
        ("tokens/min", "tokens min", False),
        ("s/it", "time", False),
        ("it/s", "steps", False),
        ("GPU hours", "time", False),
        ("TFLOPs/s/GPU", "flops", True),
        ("GiB", "memory", False),
        ("% bf16 MFU", "share", False),
    ],
)
def test_a_unit_says_its_quantity(text: str, of: str, of_one: bool) -> None:
    said = unit_in(text)
    assert said is not None
    assert (said.of, said.of_one) == (of, of_one)


@pytest.mark.parametrize("word", ["aggregate", "total", "overall", "in total"])
def test_a_word_for_all_devices_behind_a_figure_is_no_unit(word: str) -> None:
    assert figure(f"~688k {word}", "tokens/s") == figure("688k", "tokens/s")


@pytest.mark.parametrize(
    ("cell", "alone"),
    [
        ("1444.4 ± 6.4", "1444.4"),
        ("301.9k ± 0.2k", "301.9k"),
        ("28.25 ± 0.02%", "28.25%"),
        ("5.67 s ± 0.03", "5.67 s"),
        ("277.88 ± 2.35 ms", "277.88 ms"),
        ("29,534 +/- 251", "29,534"),
    ],
)
def test_of_a_figure_and_its_spread_the_figure_counts(cell: str, alone: str) -> None:
    assert without_spread(cell) == without_spread(alone) == alone


@pytest.mark.parametrize("text", ["5 s ± 3 ms", "± 3", "30 ± 20k", "4 ± 1 or 5 ± 1"])
def test_a_spread_in_another_unit_is_none(text: str) -> None:
    assert without_spread(text) == text


def test_figures_with_a_spread_are_priced_as_without(tmp_path: Path) -> None:
    (spread,), (alone,) = (priced(tmp_path, f"MFU,{c},") for c in ("40.25 ± 0.02%", "40.25%"))
    assert spread["error"] == alone["error"]
    (bare,) = priced(tmp_path, "tokens/s,629534 ± 251,")
    assert bare["published"] == 629534.0


@pytest.mark.parametrize("metric", ["Model FLOPs utilization (MFU)", "MFU (fp8)"])
def test_a_share_of_flops_is_no_rate_of_them(tmp_path: Path, metric: str) -> None:
    (words,), (plain,) = (priced(tmp_path, f"{name},40%,") for name in (metric, "MFU"))
    assert words["error"] == plain["error"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6h 04m 57s", 21897.0),
        ("1 day 4 hours", 100800.0),
        ("2m15s", 135.0),
        ("one day", 86400.0),
        ("two weeks", 1209600.0),
    ],
)
def test_parts_of_a_duration_add_up(text: str, seconds: float) -> None:
    assert figure(text, "", "training time") == (seconds, "s")


@pytest.mark.parametrize("text", ["6h", "300 ms", "3.2 s", "12 min"])
def test_a_duration_in_one_unit_keeps_it(text: str) -> None:
    value, _, unit = text.partition(" ") if " " in text else (text[:-1], "", text[-1])
    assert figure(text, "", "training time") == (float(value), unit)


@pytest.mark.parametrize("said", ["15550 training steps", "15,550 steps", "500K steps"])
def test_a_whole_run_of_so_many_steps_tells_the_time_of_one(tmp_path: Path, said: str) -> None:
    file = tmp_path / "table.csv"
    cells = "model,system,gpus,seq,gbs,dtype,metric,value,unit,source"
    run = "Llama 2 7B,DGX H100,64,4096,512,bf16"
    steps = 500000.0 if said == "500K steps" else 15550.0
    lines = [f'{run},run time,6h 04m 57s,,"{said}"', f"{run},step time,{21897.0 / steps!r},s,"]
    file.write_text("\n".join([cells, *lines]) + "\n", encoding="utf-8")
    whole, step = reproductions.run(rows_path=file)["rows"]
    assert whole["error"] == pytest.approx(step["error"], rel=1e-9)
    assert f"a run of {steps:g} steps" in whole["note"]


@pytest.mark.parametrize("said", ["10 warmup steps", "100 steps and 200 steps", "mean of 50 steps"])
def test_steps_of_a_part_of_a_run_tell_no_time_of_one(tmp_path: Path, said: str) -> None:
    file = tmp_path / "table.csv"
    head = "model,system,gpus,seq,gbs,dtype,metric,value,unit,source"
    line = f'Llama 2 7B,DGX H100,64,4096,512,bf16,run time,6h 04m,,"{said}"'
    file.write_text(f"{head}\n{line}\n", encoding="utf-8")
    (row,) = reproductions.run(rows_path=file)["rows"]
    assert row["status"] == "skipped"


def test_a_bound_behind_a_number_and_a_remark_behind_a_range_are_no_part_of_them(
    tmp_path: Path,
) -> None:
    rows = priced(
        tmp_path,
        "TFLOP/s/GPU,400+,",
        "TFLOP/s/GPU,400+ TFLOPs per GPU,",
        "TFLOP/s/GPU,<400 TFLOPs per GPU,",
        "TFLOP/s/GPU,390-410 (peak 470),",
        "TFLOP/s/GPU,400,",
    )
    assert {row["published"] for row in rows} == {400.0}
    assert ["is a bound" in (row["note"] or "") for row in rows] == [*[True] * 3, False, False]


@pytest.mark.parametrize(
    "metric", ["Percentage of theoretical peak FLOPS", "percentage of peak", "percent_of_peak"]
)
def test_a_share_of_the_theoretical_peak_is_in_percent(tmp_path: Path, metric: str) -> None:
    share, mfu = priced(tmp_path, f"{metric},44.61%,", "MFU,44.61%,")
    assert share["published"] == mfu["published"] == 44.61
    assert share["status"] == mfu["status"]
    assert share["predicted"] == pytest.approx(mfu["predicted"], rel=0.35)


@pytest.mark.parametrize("text", ["over 9,200", "more than 9.2k", "up to 9200", "at least 9,200"])
def test_words_before_a_figure_make_it_a_bound(tmp_path: Path, text: str) -> None:
    words, sign = priced(tmp_path, f'tokens/s/GPU,"{text}",tokens/s', "tokens/s/GPU,>9200,tokens/s")
    assert words["published"] == sign["published"] == 9200.0
    assert "is a bound" in words["note"]
    assert "is a bound" in sign["note"]


@pytest.mark.parametrize("unit", ["million tokens/s", "M tokens/s", "Mtok/s"])
def test_tokens_that_a_unit_counts_by_millions_are_counted_one_by_one(
    tmp_path: Path, unit: str
) -> None:
    millions, ones = priced(tmp_path, f"throughput,0.5,{unit}", "throughput,500000,tokens/s")
    assert millions["published"] == ones["published"] == 500000.0
    assert millions["error"] == ones["error"]


def test_a_share_of_flops_that_its_unit_tells_is_of_those(tmp_path: Path) -> None:
    assert figure("40.5%", "of 1 PFLOP/s", "MFU") == (40.5, "% of 1000")
    assert figure("40.5", "% of a peak of 989.5 TFLOPs", "MFU") == (40.5, "% of 989.5")
    told, meant = priced(tmp_path, "MFU,40.5%,of 1 PFLOP/s", "MFU,40.5,% of 1000")
    assert told["error"] == meant["error"]


@pytest.mark.parametrize("value", ["1,2345k", "1,2,3k", "1'5k", "1,234,5k"])
def test_marks_that_part_no_groups_are_refused_with_their_line(tmp_path: Path, value: str) -> None:
    said = f'Tokens/s,"{value}",'
    (row,) = priced(tmp_path, said)
    assert row["predicted"] is None
    assert "allowed: one number" in row["reason"]


@given(st.integers(1, 999), st.integers(0, 99), st.sampled_from(["k", "K", "M"]))
def test_a_decimal_comma_reads_as_a_point(whole: int, parts: int, scale: str) -> None:
    comma = figure(f"{whole},{parts}{scale}", "tokens/s")
    assert comma == figure(f"{whole}.{parts}{scale}", "tokens/s")


@pytest.mark.parametrize(("value", "gigabytes"), [("20.5G", 20.5), ("20500M", 20.5)])
def test_letters_behind_memory_without_a_unit_count_bytes(value: str, gigabytes: float) -> None:
    number, of = figure(value, "", "peak GPU memory")
    assert (number, of) == (pytest.approx(gigabytes), "GB")
