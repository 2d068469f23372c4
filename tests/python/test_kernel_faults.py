"""Are figures that contradict one another refused, and is no more said of a fit than is known?"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scalewright as sw
from scalewright.calibration import Measured, SkippedLine, calibrate, calibrate_products, read_files
from scalewright.calibration.logs import read_log
from scalewright.catalog import load_device
from scalewright.cli import main
from scalewright.reproductions import collectives, kernels
from scalewright.reproductions.collectives.names import COLLECTIVES, collective_named
from scalewright.reproductions.kernels.agreement import printed
from scalewright.reproductions.kernels.rows import KernelRow, held_out, shipped

ROOT = Path(__file__).parents[2]
CATALOG = ROOT / "python" / "scalewright" / "catalog"
OURS, THEIRS = "h100_sxm", "NVIDIA H100 80GB HBM3"
EIGHT = "# nThread 1 nGpus 8 minBytes 8\n"
HEADINGS = "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong"
GOOD = "1048576 262144 float sum -1 37.50 27.96 48.93 0 37.40 28.04 49.06 0"
COLLECTIVE = "system,collective,ranks,nodes,bytes,time_us,algbw_GBps,busbw_GBps\n"


def parts(found: dict[str, Any]) -> set[str]:
    return {row["part"] for row in found["rows"]}


def written(place: Path, *lines: str) -> Path:
    place.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return place


def products(place: Path, *systems: str) -> Path:
    lines = (f"{system},bf16,4096,4096,4096,210" for system in systems)
    return written(place, "system,dtype,m,n,k,latency_us", *lines)


@pytest.mark.parametrize("system", [OURS, THEIRS])
@pytest.mark.parametrize(
    ("change", "known"),
    [
        ("[matmul]\nthrottle = 0.3", False),
        ("launch_overhead = '4 us'", False),
        ("[matrix]\nbf16 = '900 TFLOP/s'", False),
        ("[decode.bf16]\nbandwidth_share = 0.8", True),
        ("price = '1 USD'", True),
    ],
)
def test_nothing_is_claimed_of_constants_that_a_users_file_gives(
    tmp_path: Path, system: str, change: str, known: bool
) -> None:
    file = products(tmp_path / "timed.csv", system)
    mine = written(tmp_path / "my.toml", "kind = 'device'", "base = 'h100-sxm'", change)
    ours = parts(kernels.run(rows_path=file))
    assert ours == {"held_out"} if system == OURS else {"not_calibrated"}
    assert parts(kernels.run(rows_path=file, overrides=[mine])) == (ours if known else {"unknown"})


def test_nothing_is_claimed_of_a_device_that_is_a_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it takes the name of one of ours, and where the environment names its file."""
    file = products(tmp_path / "timed.csv", OURS)
    text = (CATALOG / "devices" / "h100-sxm.toml").read_text(encoding="utf-8")
    mine = written(tmp_path / "my.toml", "kind = 'device'", text)
    assert parts(kernels.run(rows_path=file, only_device=str(mine))) == {"unknown"}
    monkeypatch.setenv("SCALEWRIGHT_CATALOG", str(mine))
    assert parts(kernels.run(rows_path=file)) == {"unknown"}


def test_the_table_and_the_json_say_that_a_fit_is_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = products(tmp_path / "timed.csv", THEIRS)
    change = "[matmul]\nthrottle = 0.3"
    mine = written(tmp_path / "my.toml", "kind = 'device'", "base = 'h100-sxm'", change)
    asked = ["reproduce", "--rows", str(file), "--catalog", str(mine)]
    assert main(asked) == 0
    shown = capsys.readouterr().out
    assert "whether they saw these rows is not known" in shown
    assert "fitted to none" not in shown
    assert main([*asked, "--markdown"]) == 0
    assert "| gemm | h100-sxm | bfloat16 | 1 |" in capsys.readouterr().out
    assert main([*asked, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert parts(answer) == {"unknown"}
    assert answer["summary"]["by_part"]["unknown"]["rows"] == 1


@pytest.mark.parametrize(
    ("base", "change", "known"),
    [
        ("system", "[[levels]]\nname = 'nvswitch'\nefficiency = 0.7", False),
        ("system", "[price]\nrent_per_device_hour = '1 USD'", True),
        ("device", "[matmul]\nthrottle = 0.3", True),
    ],
)
@pytest.mark.parametrize("system", [OURS, "dgx-h100"])
def test_nothing_is_claimed_of_collectives_on_constants_that_a_users_file_gives(
    tmp_path: Path, system: str, base: str, change: str, known: bool
) -> None:
    line = f"{system},all_reduce,8,1,1073741824,4150,,"
    file = written(tmp_path / "timed.csv", COLLECTIVE + line)
    name = {"system": "dgx-h100", "device": "h100-sxm"}[base]
    mine = written(tmp_path / "my.toml", f"kind = '{base}'", f"base = '{name}'", change)
    ours = parts(collectives.run(file))
    found = collectives.run(file, overrides=[mine])
    assert parts(found) == (ours if known else {"unknown"})
    of_it = found["summary"]["by_part"]["unknown"]["large_rows"]
    assert of_it == (0 if known else 1)


@pytest.mark.parametrize("beside", ["batch", "batch_size", "sequence", "model", "gpus"])
def test_the_sides_of_products_decide_what_a_table_holds(tmp_path: Path, beside: str) -> None:
    """Rates and batches head tables of training steps, too; m, n and k together do not."""
    head = f"device,dtype,M,N,K,TFLOPS,{beside}"
    file = written(tmp_path / "timed.csv", head, "h100,bf16,4096,4096,4096,650,1")
    assert kernels.holds_kernels(file)
    (row,) = kernels.run(rows_path=file)["rows"]
    assert abs(row["error"]) < 0.3
    lacks = written(tmp_path / "lacks.csv", head.replace("dtype", "kind"), "h100,x,1,1,1,650,1")
    assert kernels.holds_kernels(lacks)
    with pytest.raises(sw.InvalidError, match=r"columns of timed kernels; allowed: .*gemm_dtype"):
        kernels.run(rows_path=lacks)


def test_a_table_of_training_steps_is_none_of_products(tmp_path: Path) -> None:
    head = "model,gpus,precision,TFLOPS,batch,micro_batch"
    file = written(tmp_path / "runs.csv", head, "gpt3-175b,1024,bf16,140,1536,1")
    assert not kernels.holds_kernels(file)


@pytest.mark.parametrize(
    ("head", "good", "bad", "said"),
    [
        ("latency_us,TFLOPS", "210,650", "210,65", "tflops: got 65 TFLOP/s beside 210 us"),
        ("latency_us,TFLOPS", "210,n/a", "210,0.0", "allowed: about 654.5 TFLOP/s"),
        ("latency_ms,latency_us", "0.21,210", "0.21,999", "latency_ms: got 0.21 ms beside 999 us"),
        ("latency_s,time_ms", "2.1e-4,0.2", "2.1e-4,0.3", "allowed: about 0.0003 s"),
    ],
)
def test_a_kernel_whose_figures_contradict_one_another_is_refused(
    tmp_path: Path, head: str, good: str, bad: str, said: str
) -> None:
    lines = [f"h100,bf16,4096,4096,4096,{figures}" for figures in (bad, good)]
    file = written(tmp_path / "timed.csv", f"system,dtype,m,n,k,{head}", *lines)
    refused, priced = kernels.run(rows_path=file)["rows"]
    assert refused["line"] == 2
    assert refused["error"] is None
    assert said in refused["reason"]
    assert priced["error"] is not None


@given(
    st.floats(1.0, 1e6), st.integers(1, 5), st.integers(1, 5), st.floats(1.25, 50.0), st.booleans()
)
def test_figures_contradict_one_another_beyond_their_rounding_alone(
    time_us: float, digits: int, more: int, factor: float, slower: bool
) -> None:
    """A time and its rate as they are printed agree, however few digits; other rates do not."""
    flops, wrong = 2.0 * 4096**3, 1.0 / factor if slower else factor
    rate = flops / time_us / 1e6
    time = printed(f"{time_us:.{digits}f}")
    told = printed(f"{rate:.{more}f}")
    assert time is not None
    assert told is not None
    assert told.agrees(time.under(flops / 1e6))
    exact, off = printed(repr(time_us)), printed(f"{rate * wrong:.9f}")
    assert exact is not None
    assert off is not None
    if rate * min(wrong, 1.0) > 1e-6:
        assert not off.agrees(exact.under(flops / 1e6))


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ("1,1", "algbw: got 1 GB/s beside 1073741824 bytes in 2500 us; allowed: about 429.5 GB/s"),
        (",429", "busbw: got 429 GB/s beside .* on 8 ranks; allowed: about 751.6 GB/s"),
        ("429,751", None),
        ("429,", None),
        ("0.4e3,0.8e3", None),
    ],
)
def test_a_collective_whose_rates_contradict_its_time_is_refused(
    tmp_path: Path, rates: str, said: str | None
) -> None:
    lines = [f'dgx-h100,all_reduce,8,1,"1,073,741,824","2,500",{r}' for r in (rates, "429,751")]
    file = written(tmp_path / "all.csv", COLLECTIVE + "\n".join(lines))
    row, other = collectives.run(file)["rows"]
    assert other["measured_s"] == pytest.approx(2500e-6)
    assert other["bytes"] == 2.0**30
    lines_used = read_files([str(file)])
    if said is None:
        assert row["error"] is not None
        assert len([line for line in lines_used if isinstance(line, Measured)]) == 2
    else:
        assert (row["line"], row["error"]) == (2, None)
        assert re.search(said, row["reason"])
        (wrong,) = (line for line in lines_used if isinstance(line, SkippedLine))
        assert re.match(f"{re.escape(str(file))}, line 2: {said}", str(wrong))


def test_every_figure_of_the_packages_own_collectives_agrees() -> None:
    skipped = collectives.run()["summary"]["skipped"]
    assert not [reason for reason in skipped if "beside" in reason]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (GOOD.replace("27.96", "2.796"), "algbw: got 2.796 GB/s beside 1048576 bytes in 37.5 us"),
        (GOOD.replace("48.93", "489.3"), "busbw: got 489.3 GB/s"),
        (GOOD.replace("48.93 0", "48.93 7"), "#wrong: got 7 wrong elements; allowed: 0 or N/A"),
        (GOOD.replace("37.50", "abc"), "time: got 'abc'"),
    ],
)
def test_a_line_of_a_log_that_cannot_be_true_is_left_out_alone(line: str, said: str) -> None:
    found = read_log("all_reduce.log", f"{EIGHT}{HEADINGS}\n{GOOD}\n{line}\n{GOOD}", None, None)
    assert [type(row) for row in found] == [Measured, SkippedLine, Measured]
    assert str(found[1]).startswith(f"all_reduce.log, line 4: {said}")


@pytest.mark.parametrize(
    ("before", "after"), [("49.06 0", "49.06 7"), ("28.04", "2.804"), ("37.40", "abc")]
)
def test_a_wrong_run_in_place_leaves_the_one_out_of_place(before: str, after: str) -> None:
    text = f"{EIGHT}{HEADINGS}\n{GOOD.replace(before, after)}"
    row, wrong = read_log("all_reduce.log", text, None, None)
    assert isinstance(row, Measured)
    assert (row.time_s, row.in_place_time_s) == (37.5e-6, None)
    assert str(wrong).startswith("all_reduce.log, line 3, in place: ")


def test_errors_of_rounding_and_times_of_the_host_are_no_contradictions() -> None:
    """Old versions print an error beside each result; `cputime` is not what the rates are of."""
    old = HEADINGS.replace("#wrong", "error")
    (row,) = read_log("all_reduce.log", f"{EIGHT}{old}\n{GOOD.replace(' 0', ' 1e-07')}", None, None)
    assert isinstance(row, Measured)
    host = HEADINGS.replace("time", "cputime")
    (row,) = read_log(
        "all_reduce.log", f"{EIGHT}{host}\n{GOOD.replace('37.50', '4.10')}", None, None
    )
    assert isinstance(row, Measured)


def test_lines_left_out_are_counted_and_the_rest_is_fitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = [2**power for power in range(10, 34)]
    times = sw.collective("all_reduce", sizes, "dgx-h100", 8).time_s * 1e6
    rows = [
        f"{size} {size // 4} float sum -1 {time:.2f} N/A N/A 0 N/A N/A N/A N/A"
        for size, time in zip(sizes, times.tolist(), strict=True)
    ]
    bad = ["4096 1024 float sum -1 abc 0 0 0 N/A N/A N/A N/A"] * 6
    log = written(tmp_path / "all_reduce.log", EIGHT + HEADINGS, *bad, *rows)
    asked = ["calibrate", "nccl", str(log), "--system", "dgx-h100"]
    assert main(asked) == 0
    shown = capsys.readouterr().out
    assert "left out, since their figures cannot be used: 6" in shown
    assert "and 1 lines more" in shown
    assert main([*asked, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["rows"]["read"] == len(sizes)
    assert len(answer["left_out"]) == 6
    assert "line 3: time: got 'abc'" in answer["left_out"][0]
    few = written(tmp_path / "all_reduce_few.log", EIGHT + HEADINGS, *bad, rows[0])
    with pytest.raises(sw.InvalidError, match=r"got one size; .*left out: .*line 3: time: got"):
        calibrate(read_files([str(few)]), sw.system("dgx-h100", 8))
    only = written(tmp_path / "all_reduce_bad.log", EIGHT + HEADINGS, *bad)
    with pytest.raises(sw.InvalidError, match=r"no row that can be used: .*line 3: time: got"):
        read_files([str(only)])


def timed(dtype: str) -> list[KernelRow]:
    """Products of one table with the times that the catalog predicts."""
    rows = [
        row
        for row in shipped()
        if isinstance(row, KernelRow)
        and (row.kind, row.system, row.shape.dtype) == ("gemm", OURS, dtype)
    ]
    names = ("batch", "m", "n", "k")
    shapes = {name: [row.shape.numbers[name] for row in rows] for name in names}
    times = sw.kernel_times(rows[0].shape.request, load_device("h100-sxm"), shapes).tolist()
    return [replace(row, time_s=time) for row, time in zip(rows, times, strict=True)]


def test_a_fit_that_is_worse_than_the_catalog_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Held-out times are those of the catalog, the others scatter: no fit to these is as near."""
    rows = timed("bfloat16")[:90]
    apart = held_out(rows)
    noise = np.exp(np.random.default_rng(2).normal(0.0, 0.2, len(rows))).tolist()
    rows = [
        row if (row.file, row.line) in apart else replace(row, time_s=row.time_s * factor)
        for row, factor in zip(rows, noise, strict=True)
    ]
    lines = [
        f"{OURS},bf16,{','.join(str(int(row.shape.numbers[n])) for n in 'mnk')},{row.time_s * 1e6}"
        for row in rows
    ]
    file = written(tmp_path / "timed.csv", "system,dtype,m,n,k,latency_us", *lines)
    out = tmp_path / "my.toml"
    asked = ["calibrate", "gemm", str(file), "--afresh", "--out", str(out)]
    assert main(asked) == 1
    shown = capsys.readouterr().out
    assert "worse than the catalog's constants on rows held out: median error" in shown
    assert not out.exists()
    assert main([*asked, "--force"]) == 0
    assert "with the constants before 0.0%" in out.read_text()
    capsys.readouterr()
    assert main([*asked, "--json"]) == 1
    (family,) = json.loads(capsys.readouterr().out)["families"]
    errors = family["errors"]
    assert "held_out" in family["worse"]
    assert errors["held_out_before"]["median_abs_error"] < 1e-4
    assert errors["held_out_before"]["long_rows"] == errors["held_out"]["long_rows"]
    assert errors["fitted_before"]["long_rows"] == errors["cross_validation"]["long_rows"]


def test_a_fit_that_is_nearer_than_the_catalog_is_not_called_worse() -> None:
    device = load_device("h100-sxm")
    slow = {**device, "matmul": {**device["matmul"], "efficiency": {"bf16": 0.3}}}
    (family,) = calibrate_products(timed("bfloat16"), slow).families
    assert family["worse"] == []
    errors = family["errors"]
    assert errors["cross_validation"]["median_abs_error"] < 0.05
    assert errors["fitted_before"]["median_abs_error"] > 0.3


@pytest.mark.parametrize(
    ("spelt", "engine"),
    [
        ("ReduceScatter", "reduce_scatter"),
        ("reduce-scatter", "reduce_scatter"),
        ("all reduce", "all_reduce"),
        ("AllGather", "all_gather"),
        ("ALLGATHER", "all_gather"),
        ("all_to_all", "all_to_all"),
        ("all2all", "all_to_all"),
        ("a2a", "all_to_all"),
        ("Send/Recv", "send_receive"),
        ("ncclBroadcast", "broadcast"),
        ("all_reduce_perf", "all_reduce"),
    ],
)
def test_a_collective_is_the_same_however_it_is_spelt(
    tmp_path: Path, spelt: str, engine: str
) -> None:
    head = "system,collective,ranks,bytes,time_us"
    file = written(tmp_path / "all.csv", head, f"dgx-h100,{spelt},8,1e9,3500")
    (row,) = collectives.run(file)["rows"]
    (used,) = read_files([str(file)])
    assert isinstance(used, Measured)
    assert row["collective"] == used.collective == collective_named(spelt) == engine
    assert row["error"] is not None


def test_every_name_of_a_program_is_known_and_no_other_word_is() -> None:
    assert {collective_named(name) for name in COLLECTIVES} == set(COLLECTIVES.values())
    assert [collective_named(word) for word in ("", "perf", "hypercube", "reduced")] == [None] * 4


def test_both_layouts_of_collectives_are_fitted_alike(tmp_path: Path) -> None:
    sizes = [2**power for power in range(12, 32, 2)]
    times = sw.collective("all_gather", sizes, "dgx-h100", 8).time_s * 1.3e6
    pairs = list(zip(sizes, times.tolist(), strict=True))
    plain = [f"all_gather,8,{size},{time!r}" for size, time in pairs]
    other = [f"AllGather,half,8,{size // 2},{time!r}" for size, time in pairs]
    files = (
        written(tmp_path / "one.csv", "collective,ranks,bytes,time_us", *plain),
        written(
            tmp_path / "two.csv",
            "op_name,nccl_dtype,num_gpus,message_elements,latency_us",
            *other,
        ),
    )
    machines = sw.system("dgx-h100", 8)
    one, two = (calibrate(read_files([str(file)]), machines) for file in files)
    assert one.constants == two.constants


@pytest.mark.parametrize("name", ["nccl.csv", "custom_allreduce.csv", "measured.csv"])
def test_a_calibration_reads_every_file_of_collectives_that_the_package_ships(name: str) -> None:
    only = "p4de" if name == "measured.csv" else OURS
    found = read_files([str(CATALOG / "published" / "collectives" / name)], only=only)
    assert len(found) > 20
    assert all(isinstance(row, Measured) for row in found)


def test_the_page_says_how_many_runs_a_constant_of_steps_needs() -> None:
    from scalewright.calibration.steps import FOLDS

    assert FOLDS == 4
    page = (ROOT / "docs" / "evidence-format.md").read_text()
    assert "Two runs are needed for each constant that is felt, and four at least" in page
