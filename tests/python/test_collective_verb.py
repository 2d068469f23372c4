"""Does `scalewright collective` say what the engine says, and can its drawings be read?"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scalewright as sw
from scalewright.calibration import Measured, read_files
from scalewright.cli import main
from scalewright.config import buffer_sizes
from scalewright.report import quantities as q

ALL_REDUCE = ["collective", "all_reduce", "--system", "dgx-h100"]
SIZES = [1024, 2**20, 2**30]


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*ALL_REDUCE, *arguments]) == 0
    return capsys.readouterr().out


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    return json.loads(shown(capsys, "--json", *arguments))


def times(answer: dict[str, object]) -> list[float]:
    return [row["time_s"] for row in answer["sizes"]]


def test_json_says_what_python_says(capsys: pytest.CaptureFixture[str]) -> None:
    answer = answered(capsys, "--ranks", "16", "--sizes", "1K,1M,1G")
    told = sw.collective("all_reduce", SIZES, "dgx-h100", 16)
    assert [row["bytes"] for row in answer["sizes"]] == SIZES
    assert times(answer) == told.time_s.tolist()
    for field in (
        "algorithm",
        "runner_up",
        "lower_bound_s",
        "relative_gap",
        "binding",
        "binding_level",
    ):
        assert [row[field] for row in answer["sizes"]] == getattr(told, field).tolist()
    assert answer["crossovers"] == [vars(crossover) for crossover in told.crossovers()]
    assert answer["ranks"] == 16


def test_a_group_is_one_node_where_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert answered(capsys)["ranks"] == 8


def test_where_the_winner_changes_the_runner_up_ties(capsys: pytest.CaptureFixture[str]) -> None:
    for crossover in answered(capsys, "--ranks", "16")["crossovers"]:
        told = sw.collective("all_reduce", [crossover["bytes"]], "dgx-h100", 16)
        assert told.runner_up_time_s[0] == pytest.approx(told.time_s[0], rel=1e-9)


def test_rules_bind_the_winner(capsys: pytest.CaptureFixture[str]) -> None:
    free = answered(capsys, "--ranks", "16")
    without = answered(capsys, "--ranks", "16", "--forbid", "tree,in_network")
    assert {row["algorithm"] for row in without["sizes"]} == {"ring"}
    only = answered(capsys, "--ranks", "16", "--algorithm", "ring")
    assert times(only) == times(without)
    assert all(a <= b for a, b in zip(times(free), times(only), strict=True))
    simple = answered(capsys, "--ranks", "16", "--protocol", "Simple")
    assert {row["protocol"] for row in simple["sizes"]} == {"simple"}


def test_a_rate_with_a_unit_takes_the_place_of_the_levels(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rules = ["--ranks", "16", "--algorithm", "ring", "--protocol", "Simple", "--sizes", "64G"]
    slow = times(answered(capsys, *rules, "--bandwidth", "100 Gb/s"))
    assert slow == times(answered(capsys, *rules, "--bandwidth", "12.5 GB/s"))
    slower = times(answered(capsys, *rules, "--bandwidth", "50 Gb/s"))
    assert slower[0] / slow[0] == pytest.approx(2, rel=0.05)
    inner = answered(capsys, *rules, "--bandwidth", "1 GB/s", "--level", "nvswitch")
    assert inner["sizes"][0]["binding_level"] == "nvswitch"


def test_the_answer_says_at_which_rate_of_which_level(capsys: pytest.CaptureFixture[str]) -> None:
    rules = ["--ranks", "16", "--bandwidth", "1 GB/s"]
    answer = answered(capsys, *rules, "--level", "nvswitch")
    assert (answer["level"], answer["bandwidth_bytes_per_s"]) == ("nvswitch", 1e9)
    free = answered(capsys)
    assert (free["level"], free["bandwidth_bytes_per_s"]) == (None, None)
    assert "nvswitch bandwidth 1 GB/s" in shown(capsys, *rules, "--level", "nvswitch")


@pytest.mark.parametrize(
    ("group", "level", "crossed"),
    [
        (["--ranks", "8"], "ndr-infiniband", "nvswitch"),
        (["--ranks", "4", "--stride", "8"], "nvswitch", "ndr-infiniband"),
    ],
)
def test_the_rate_of_a_level_that_is_not_crossed_is_refused(
    group: list[str], level: str, crossed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rate = ["--bandwidth", "50 GB/s", "--level"]
    assert main([*ALL_REDUCE, *group, *rate, level]) == 2
    assert f"--level: got '{level}'; allowed: {crossed}" in capsys.readouterr().err
    assert answered(capsys, *group, *rate, crossed)["level"] == crossed


@pytest.mark.parametrize(
    ("group", "said"),
    [
        (["--ranks", "8", "--stride", "10"], "--stride: got 10, so that 8 ranks span 71 devices; "),
        (["--ranks", "8", "--stride", "10"], "allowed: 1 to 9, within 64 devices (all levels of"),
        (["--ranks", "65"], "--ranks: got 65; allowed: 1 to 64 (all levels of few)"),
        (["--ranks", "3", "--stride", "4294967295"], "--stride: got 4294967295, so that 3 ranks"),
    ],
)
def test_a_group_too_wide_names_the_option_that_makes_it_so(
    group: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = tmp_path / "few.toml"
    few.write_text(
        "kind = 'system'\nbase = 'dgx-h100'\nname = 'few'\n"
        "[[levels]]\nname = 'ndr-infiniband'\ndevices = 64\n"
    )
    asked = ["collective", "all_reduce", "--system", str(few)]
    assert main([*asked, *group]) == 2
    assert said in capsys.readouterr().err


def test_python_names_a_stride_that_leaves_the_machines() -> None:
    with pytest.raises(sw.InvalidError, match=r"^stride: got 4294967295, so that 3 ranks"):
        sw.collective("all_reduce", 1e6, "dgx-h100", 3, stride=2**32 - 1)


@pytest.mark.parametrize("name", ["alltoall", "all_to_all", "AllToAll"])
def test_names_of_nccl_tests_are_understood(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collective", name, "--system", "dgx-h100", "--json", "--sizes", "1M"]) == 0
    assert json.loads(capsys.readouterr().out)["collective"] == "all_to_all"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sizes", "1K:"], "sizes: got '1K:'"),
        (["--sizes", "many"], "sizes: got 'many'"),
        (["--sizes", "1M:1K:2"], "sizes: got"),
        (["--sizes", "1:1G:1.0011"], "at most 4096"),
        (["--bandwidth", "fast"], "bandwidth: got 'fast'; allowed: a rate, as \"50 GB/s\""),
        (["--ranks", "0"], "ranks: got 0"),
        (["--stride", "0"], "stride: got 0"),
        (["--level", "nvswich", "--bandwidth", "1 GB/s"], "nvswitch"),
        (["--level", "nvswitch"], "--level: got 'nvswitch'; allowed: only with --bandwidth"),
        (["--algorithm", "rink"], "ring"),
        (["--protocol", "LL129"], "low_latency_128"),
        (["--picture", "busbw.bmp"], "ends with .png, .svg, .html"),
        (["--picture", "busbw.png", "--sizes", "1M"], "on 8 ranks, 1 size; allowed: two sizes or"),
        (["--like", "nccl-tests", "--sizes", "2"], "sizes: got 2 bytes at most"),
    ],
)
def test_wrong_input_is_named(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*ALL_REDUCE, *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_barrier_moves_no_bytes_so_it_has_one_time_and_no_bandwidth(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["collective", "barrier", "--system", "dgx-h100", "--ranks", "64"]) == 0
    told = capsys.readouterr().out
    found = sw.collective("barrier", [1.0, 1e6], "dgx-h100", 64)
    time_s = float(found.time_s[0])
    assert not found.algorithm_bandwidth_bytes_per_s.any()
    assert not found.bus_bandwidth_bytes_per_s.any()
    assert told.count(q.time(time_s)) == 1
    assert "algbw" not in told
    assert "GiB" not in told


def test_one_rank_and_a_barrier_have_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert "nobody to talk with" in shown(capsys, "--ranks", "1")
    assert main(["collective", "barrier", "--system", "dgx-h100", "--sizes", "8"]) == 0
    assert main(["collective", "barrier", "--system", "dgx-h100", "--like", "nccl-tests"]) == 2


@pytest.mark.parametrize("columns", [80, 97, 140, 300])
def test_everything_fits_the_screen(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = shown(capsys, "--ranks", "16").splitlines()
    assert max(map(len, lines)) <= columns
    assert not any("…" in line for line in lines)
    assert "in network, Simple" in "".join(lines)
    assert sum("│" in line for line in lines) == 12


def test_the_drawing_grows_with_bandwidth(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for line in shown(capsys).splitlines() if "│" in line]
    filled = [sum(letter in "▁▂▃▄▅▆▇█" for letter in line) for line in lines]
    assert filled == sorted(filled)
    assert filled[-1] > 0
    grid = [line.split("│")[1] for line in lines]
    for column in range(max(map(len, grid))):
        letters = "".join(row[column : column + 1] or " " for row in grid)
        assert "·" not in letters.lstrip(" ·"), "the bound lies above the bar"
    assert any("·" in row for row in grid)


def test_a_screen_without_letters_gets_a_plain_drawing() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "scalewright", *ALL_REDUCE]
    run = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert b"#####" in run.stdout
    assert b"\\u" not in run.stdout


def test_the_layout_is_that_of_nccl_tests(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "--like", "nccl-tests", "--sizes", "32M").splitlines()
    assert "# Collective test starting: all_reduce_perf" in lines
    (at,) = [at for at, line in enumerate(lines) if " size " in line]
    assert lines[at - 1] == f"#{' ' * 62}out-of-place{' ' * 23}in-place{' ' * 10}"
    assert lines[at] == (
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
        "     time   algbw   busbw  #wrong "
    )
    row = lines[at + 2]
    assert row.startswith("    33554432       8388608     float     sum      -1   ")
    # the decimal points of both halves stand where nccl-tests has them
    assert [place for place, letter in enumerate(row) if letter == "."] == [
        58, 66, 74, 90, 98, 106,
    ]  # fmt: skip
    assert lines[at + 3] == "# Out of bounds values : 0 OK"
    assert lines[at + 4].startswith("# Avg bus bandwidth    : ")


def test_messages_say_how_they_differ_from_those_of_nccl_tests(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """There one rank of a node sends to the next node, here all of them do."""
    for name, said in (("send_receive", True), ("broadcast", False)):
        asked = ["collective", name, "--system", "dgx-h100", "--like", "nccl-tests"]
        assert main([*asked, "--sizes", "1M"]) == 0
        assert ("sendrecv_perf sends to the next rank" in capsys.readouterr().out) == said


@pytest.mark.parametrize(
    ("name", "ranks", "stride"),
    [("all_reduce", 8, 1), ("all_gather", 16, 1), ("alltoall", 4, 8), ("broadcast", 32, 1)],
)
def test_what_is_printed_like_nccl_tests_is_read_back(
    name: str, ranks: int, stride: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = ["--system", "dgx-h100", "--ranks", str(ranks), "--stride", str(stride)]
    assert main(["collective", name, *group, "--sizes", "4K:4G:4", "--like", "nccl-tests"]) == 0
    log = tmp_path / "run.log"
    log.write_text(capsys.readouterr().out)
    rows = [row for row in read_files([str(log)]) if isinstance(row, Measured)]
    sizes = [row.buffer_bytes for row in rows]
    assert sizes == buffer_sizes("4K:4G:4")
    assert {(row.ranks, row.nodes) for row in rows} == {(ranks, max(ranks * stride // 8, 1))}
    engine_name = rows[0].collective
    for in_place, read in (
        (False, [row.time_s for row in rows]),
        (True, [row.in_place_time_s for row in rows]),
    ):
        told = sw.collective(
            engine_name, sizes, "dgx-h100", ranks, stride=stride, in_place=in_place
        )
        assert read == pytest.approx(told.time_s.tolist(), rel=6e-4)


def test_a_calibration_to_a_printed_run_predicts_that_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.toml"
    lines = ["kind = 'system'", "base = 'dgx-h100'", "name = 'mine'", "[[levels]]"]
    level = ["name = 'nvswitch'", "efficiency = 0.6", "latency = '1.5 us'"]
    mine.write_text("\n".join([*lines, *level, "library.simple.base = '40 us'"]))
    logs: list[str] = []
    for ranks in ("2", "4", "8"):
        asked = ["collective", "all_reduce", "--system", "mine", "--catalog", str(mine)]
        assert main([*asked, "--ranks", ranks, "--like", "nccl-tests"]) == 0
        log = tmp_path / f"{ranks}.log"
        log.write_text(capsys.readouterr().out)
        logs.append(str(log))
    out = str(tmp_path / "fitted.toml")
    assert main(["calibrate", "nccl", *logs, "--system", "dgx-h100", "--out", out]) == 0
    assert "held-out rows" in capsys.readouterr().out
    fitted = times(answered(capsys, "--catalog", out))
    told = sw.system("mine", 8, overrides=[str(mine)])
    wanted = sw.collective("all_reduce", buffer_sizes("1K:16G:2"), told, 8).time_s.tolist()
    assert fitted == pytest.approx(wanted, rel=0.01)


@pytest.mark.parametrize("option", ["--picture", "--plot"])
@pytest.mark.parametrize(
    ("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("html", b"<!DOCTYPE html>")]
)
def test_a_picture_is_drawn(
    ending: str, start: bytes, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"busbw.{ending}"
    shown(capsys, "--ranks", "16", option, str(file))
    drawn = file.read_bytes()
    assert drawn.startswith(start)
    if ending != "png":
        for text in (b"in network", b"tree, LL128", b"what no algorithm can beat", b"16 GiB"):
            assert text in drawn


def test_a_missing_plot_library_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main([*ALL_REDUCE, "--picture", "busbw.png"]) == 2
    assert "pip install 'scalewright[plot]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1K:8K:2", [1024, 2048, 4096, 8192]),
        ("1K:8K", [1024, 2048, 4096, 8192]),
        ("8:100:10", [8, 80]),
        ("1M,1K, 1.5 KiB", [1024, 1536, 2**20]),
        ("1MB,1MiB", [10**6, 2**20]),
    ],
)
def test_sizes_are_read_as_nccl_tests_reads_them(text: str, sizes: list[int]) -> None:
    assert buffer_sizes(text) == sizes


@given(st.text(alphabet="0123456789.:,KMGTBbi -e", max_size=30) | st.text(max_size=20))
def test_any_text_is_sizes_or_refused(text: str) -> None:
    try:
        sizes = buffer_sizes(text)
    except sw.InvalidError:
        return
    assert sizes == sorted(set(sizes))
    assert sizes[0] >= 1


def test_the_title_names_the_collective_as_people_write_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["collective", "reduce_scatter", "--system", "dgx-h100", "--sizes", "1M"]) == 0
    assert "reduce-scatter on 8 x" in capsys.readouterr().out
