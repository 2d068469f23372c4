"""Does a calibration read what nccl-tests prints, and find the constants that made the times?"""

import json
import re
import tomllib
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewright as sw
from scalewright.calibration import Measured, SkippedLine, calibrate
from scalewright.calibration import read_files as lines_of
from scalewright.calibration.constants import changed, constants
from scalewright.calibration.logs import read_log
from scalewright.calibration.measured import held_out
from scalewright.calibration.pricing import Bench
from scalewright.cli import main

LOGS = Path(__file__).parents[1] / "data" / "nccl-tests"
SIZES = [2**power for power in range(10, 34)]
HEADINGS = "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong"
ROW = "  1024  256  float  sum  -1  27.31  0.04  0.07  0  26.94  0.04  0.07  0"
EIGHT = "# nThread 1 nGpus 8 minBytes 8\n"


def read_files(paths: list[str], only: str | None = None) -> list[Measured]:
    """Rows of files all of whose lines can be used."""
    rows = lines_of(paths, only=only)
    used = [row for row in rows if isinstance(row, Measured)]
    assert len(used) == len(rows)
    return used


def rows_of(collective: str, ranks: int, sizes: list[int]) -> list[Measured]:
    return [
        Measured(collective, ranks, None, size, 1.0, None, f"made.log, line {at}")
        for at, size in enumerate(sizes, 1)
    ]


def timed(rows: list[Measured], system: sw.System, place: int, factor: float) -> list[Measured]:
    """Rows with the times of a system whose level has other constants than the catalog's."""
    bench = Bench(rows, system)
    which = constants(bench.levels[place], innermost=place == 0)
    chance = np.random.default_rng(3)
    true = [
        min(constant.of(bench.levels[place]) * factor ** chance.uniform(-1, 1), constant.most)
        for constant in which
    ]
    levels = [*bench.levels]
    levels[place] = changed(levels[place], which, true)
    times = bench.times(levels)
    return [replace(row, time_s=float(time)) for row, time in zip(rows, times, strict=True)]


@pytest.mark.parametrize(
    ("system", "place", "ranks", "collectives"),
    [
        ("dgx-h100", 0, (2, 4, 8), ("all_reduce", "all_gather", "all_to_all")),
        ("dgx-a100-80gb", 1, (16, 32), ("all_reduce", "reduce_scatter", "all_to_all")),
        # a system whose level leaves its library to the engine
        ("p3-16xlarge", 1, (16, 32), ("all_reduce", "send_receive")),
    ],
)
def test_a_fit_to_times_of_the_engine_predicts_held_out_ones_within_one_percent(
    system: str, place: int, ranks: tuple[int, ...], collectives: tuple[str, ...]
) -> None:
    machines = sw.system(system, max(ranks))
    rows = [row for name in collectives for many in ranks for row in rows_of(name, many, SIZES)]
    found = calibrate(timed(rows, machines, place, 1.5), machines)
    before, after = (found.errors[which][0] for which in ("held_out_before", "held_out"))
    assert before["median_abs_error"] > 0.03
    # the key says that it has no sign, as that of kernels has
    assert "median_error" not in before
    assert abs(after["worst_error"]) < 0.01


@pytest.mark.parametrize(
    ("name", "place", "ranks"),
    # the second's level leaves its library to the engine, so the override writes it in full
    [("dgx-h100", 0, (2, 4, 8)), ("p3-16xlarge", 1, (16, 32))],
)
def test_the_override_makes_the_engine_predict_what_was_measured(
    name: str,
    place: int,
    ranks: tuple[int, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    machines = sw.system(name, ranks[-1])
    level = machines.table["levels"][place]
    assert ("library" in level) == (place == 0)
    rows = [row for many in ranks for row in rows_of("all_reduce", many, SIZES)]
    rows = timed(rows, machines, place, 1.4)
    lines = ["collective,ranks,bytes,time_us"]
    lines += [f"{r.collective},{r.ranks},{r.buffer_bytes},{r.time_s * 1e6!r}" for r in rows]
    table, override = tmp_path / "mine.csv", tmp_path / "my.toml"
    table.write_text("\n".join(lines))
    asked = ["calibrate", "nccl", str(table), "--system", name, "--out", str(override)]
    assert main([*asked, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    changed_system = sw.system(name, ranks[-1], overrides=[str(override)])
    sizes, members = ([getattr(row, of) for row in rows] for of in ("buffer_bytes", "ranks"))
    times = sw.collective("all_reduce", sizes, changed_system, members).time_s
    errors = np.abs(times / [row.time_s for row in rows] - 1)
    worst = max(abs(answer["errors"][which][0]["worst_error"]) for which in ("held_out", "fitted"))
    assert errors.max() == pytest.approx(worst, abs=1e-5)
    assert np.median(errors) < 0.01
    told = {line["name"] for line in answer["constants"] if line["status"] == "fitted"}
    written = {
        path.removeprefix(f"system.levels.{level['name']}.") for path in changed_system.overridden
    }
    assert told == written if place == 0 else told < written
    text = tomllib.loads(override.read_text())
    assert (text["base"], [found["name"] for found in text["levels"]]) == (name, [level["name"]])
    assert {path.split(".", 2)[2] for path in text["sources"]} == told
    assert all("mine.csv" in source and "held out" in source for source in text["sources"].values())


def test_times_in_place_are_fitted_where_they_are_asked_for() -> None:
    machines = sw.system("dgx-h100", 8)
    rows = timed(rows_of("all_gather", 8, SIZES), machines, 0, 1.4)
    in_place = sw.collective("all_gather", SIZES, machines, 8, in_place=True).time_s.tolist()
    both = [replace(row, in_place_time_s=t) for row, t in zip(rows, in_place, strict=True)]
    found = calibrate(both, machines, in_place=True)
    # these are the catalog's own times; without the copy of one's own part, nothing tells its rate
    assert abs(found.errors["held_out"][0]["worst_error"]) < 1e-9
    assert all(line["before"] == line["after"] for line in found.constants)
    status = {line["name"]: line["status"] for line in found.constants}
    assert (status["library.own_part"], status["efficiency"]) == ("untold", "confirmed")
    with pytest.raises(sw.InvalidError, match="in_place: got no row"):
        calibrate(rows, machines, in_place=True)


def test_ctrl_c_leaves_no_override(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(done: int, total: int) -> None:
        assert done < total
        if done == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("scalewright.cli.output.progress_bar", lambda _: nullcontext(interrupted))
    out = tmp_path / "my.toml"
    log = str(LOGS / "one-node.log")
    assert main(["calibrate", "nccl", log, "--system", "dgx-h100", "--out", str(out)]) == 130
    assert capsys.readouterr().err == "scalewright: stopped\n"
    assert not out.exists()


def test_a_system_that_was_not_measured_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    log = str(LOGS / "all_gather-two-nodes.log")
    assert main(["calibrate", "nccl", log, "--system", "fire-flyer-2"]) == 0
    shown = capsys.readouterr().out
    assert "is fire-flyer-2 what was measured" in shown
    assert main(["calibrate", "nccl", log, "--system", "dgx-a100-80gb"]) == 0
    assert "what was measured" not in capsys.readouterr().out


def test_times_that_no_constants_describe_are_not_written_unasked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machines = sw.system("dgx-h100", 8)
    rows = timed(rows_of("all_reduce", 8, SIZES), machines, 0, 1.0)
    # milliseconds under microseconds
    lines = ["collective,ranks,bytes,time_us"]
    lines += [f"all_reduce,8,{row.buffer_bytes},{row.time_s * 1e3!r}" for row in rows]
    table, override = tmp_path / "mine.csv", tmp_path / "my.toml"
    table.write_text("\n".join(lines))
    asked = ["calibrate", "nccl", str(table), "--system", "dgx-h100", "--out", str(override)]
    assert main(asked) == 1
    assert "nothing is written" in capsys.readouterr().out
    assert not override.exists()
    assert main([*asked, "--force"]) == 0
    assert override.exists()
    (tmp_path / "folder.toml").mkdir()
    assert main([*asked[:-1], str(tmp_path / "folder.toml")]) == 2


def test_a_fit_that_puts_held_out_rows_further_off_is_not_written_unasked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    timed, out = tmp_path / "timed.csv", tmp_path / "mine.toml"
    rows = ["all_reduce,8,1024,20", "all_reduce,8,1048576,40", "all_reduce,8,1073741824,4000"]
    timed.write_text("\n".join(["collective,ranks,bytes,time_us", *rows]), encoding="utf-8")
    asked = ["calibrate", "nccl", str(timed), "--system", "dgx-h100", "--out", str(out)]
    assert main(asked) == 1
    assert not out.exists()
    assert "nothing is written" in capsys.readouterr().out


def test_held_out_rows_bear_on_no_constant() -> None:
    machines = sw.system("dgx-h100", 8)
    rows = timed(rows_of("all_gather", 8, SIZES), machines, 0, 1.4)
    spoilt = [
        replace(row, time_s=row.time_s * 7) if apart else row
        for row, apart in zip(rows, held_out(rows), strict=True)
    ]
    assert calibrate(rows, machines).constants == calibrate(spoilt, machines).constants


def test_every_third_size_of_a_group_is_held_out_with_its_twins() -> None:
    rows = rows_of("all_reduce", 8, [64, 8, 32, 16, 8, 128, 32])
    assert [row.buffer_bytes for row, apart in zip(rows, held_out(rows), strict=True) if apart] == [
        32,
        32,
    ]
    assert not any(held_out(rows_of("reduce", 8, [8, 16]) + rows_of("reduce", 4, [32])))


def test_what_few_rows_cannot_tell_stays_as_in_the_catalog() -> None:
    machines = sw.system("dgx-h100", 8)
    found = calibrate(timed(rows_of("broadcast", 8, [2**30, 2**33]), machines, 0, 1.3), machines)
    kept = [line for line in found.constants if line["status"] != "fitted"]
    assert all(line["before"] == line["after"] for line in kept)
    names = {line["name"] for line in kept}
    assert {"library.issue", "library.pairwise_share", "library.in_network.base"} <= names
    assert [line["name"] for line in found.constants if line["status"] == "fitted"] == [
        "efficiency"
    ]
    assert found.errors["held_out"] == []


def test_one_size_is_refused() -> None:
    with pytest.raises(sw.InvalidError, match="got one size"):
        calibrate(rows_of("all_reduce", 8, [1024]), sw.system("dgx-h100", 8))


def test_the_level_is_the_one_that_the_rows_cross() -> None:
    machines = sw.system("dgx-h100", 16)
    inner, outer = (rows_of("all_reduce", ranks, [1024, 2**20, 2**30]) for ranks in (8, 16))
    assert calibrate(inner, machines).level == "nvswitch"
    assert calibrate(outer, machines).level == "ndr-infiniband"
    apart = [replace(row, ranks=2, nodes=2) for row in inner]
    assert calibrate(apart, machines).level == "ndr-infiniband"
    with pytest.raises(sw.InvalidError, match=r"level: .* nvswitch \(3 rows\), ndr-infiniband \(3"):
        calibrate(inner + outer, machines)
    assert calibrate(inner + outer, machines, "nvswitch").rows["left_out"] == 3
    with pytest.raises(sw.InvalidError, match="nvlink"):
        calibrate(inner, machines, "nvlink")


@pytest.mark.parametrize(
    ("file", "collective", "ranks", "nodes", "times"),
    [
        ("one-node.log", "all_reduce", 8, 1, {1024: (27.31, 26.94), 2**33: (32107.4, 32088.6)}),
        ("all_gather-two-nodes.log", "all_gather", 16, 2, {2**32: (28711.0, 28690.0)}),
        ("alltoall_perf-pod.log", "all_to_all", 8, None, {2**30: (2755.0, 2727.45)}),
        ("reduce-scatter-old.log", "reduce_scatter", 4, 1, {4096: (24.6, 24.4)}),
    ],
)
def test_logs_of_several_versions_and_launchers_are_read(
    file: str,
    collective: str,
    ranks: int,
    nodes: int | None,
    times: dict[int, tuple[float, float]],
) -> None:
    rows = read_files([str(LOGS / file)])
    printed = (LOGS / file).read_text()
    assert len(rows) == printed.count(" float ")
    assert {(row.collective, row.ranks, row.nodes) for row in rows} == {(collective, ranks, nodes)}
    by_size = {row.buffer_bytes: (row.time_s, row.in_place_time_s) for row in rows}
    for size, (out_of_place, in_place) in times.items():
        assert by_size[size] == (out_of_place / 1e6, pytest.approx(in_place / 1e6, abs=5e-9))


def test_a_row_says_its_line() -> None:
    rows = read_files([str(LOGS / "one-node.log")])
    lines = (LOGS / "one-node.log").read_text().splitlines()
    for row in rows:
        number = int(row.place.rsplit("line ", 1)[1])
        assert lines[number - 1].split()[0] == str(row.buffer_bytes)


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (ROW.rsplit("  ", 5)[0], "columns"),
        (ROW + " 12", "columns"),
        (ROW + " 12 13 14", "columns"),
        (ROW.replace("27.31", "27.3.1"), "time"),
        (ROW.replace("27.31", "0.00"), "time"),
        (ROW.replace("27.31", "nan"), "time"),
        (ROW.replace("0.07", "0,07", 1), "busbw"),
        (ROW.replace("1024", "10_24"), "size, count"),
        (ROW.replace("1024", "1" * 30), "size, count"),
    ],
)
def test_a_malformed_line_is_named_and_the_others_are_read(line: str, wrong: str) -> None:
    text = f"{EIGHT}{HEADINGS}\n{ROW}\n{line}\n"
    good, bad = read_log("all_reduce.log", text, None, None)
    assert isinstance(good, Measured)
    assert isinstance(bad, SkippedLine)
    assert re.match(rf"all_reduce\.log, line 4: .*{wrong}", str(bad))


@pytest.mark.parametrize(
    ("text", "line", "wrong"),
    [
        ("ranks,bytes,time_us\n", 1, "no column collective"),
        ("collective,ranks,bytes,time_us\nall_reduce,8,1024,fast\n", 2, "time_us: got 'fast'"),
        ("collective,ranks,bytes,time_us\nall_reduce,8,1024,-1\n", 2, "time_us"),
        ("collective,ranks,bytes,time_us\nall_reduce,8.5,1024,1\n", 2, "ranks"),
        ("collective,ranks,bytes,time_us\nhypercube,8,1024,1\n", 2, "collective: got 'hypercube'"),
        ("collective,ranks,bytes,time_us\nall_reduce,8\n", 2, "bytes"),
    ],
)
def test_a_malformed_table_names_its_line(tmp_path: Path, text: str, line: int, wrong: str) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(text)
    with pytest.raises(sw.InvalidError, match=rf"mine\.csv, line {line}: .*{wrong}"):
        read_files([str(file)])


def test_what_a_log_leaves_out_is_asked_for() -> None:
    with pytest.raises(sw.InvalidError, match="--collective"):
        read_log("mine.log", f"{EIGHT}{HEADINGS}\n{ROW}", None, None)
    with pytest.raises(sw.InvalidError, match="--ranks"):
        read_log("mine.log", f"{HEADINGS}\n{ROW}", None, "all_reduce")
    (row,) = read_log("mine.log", f"{HEADINGS}\n{ROW}", 16, "all_reduce")
    assert isinstance(row, Measured)
    assert (row.ranks, row.collective) == (16, "all_reduce")


def test_rows_of_several_systems_in_one_table_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    lines = [f"{name},all_reduce,8,{size},9.5" for name in "ab" for size in (8, 16)]
    file.write_text("\n".join(["system,collective,ranks,bytes,time_us", *lines]))
    with pytest.raises(sw.InvalidError, match="rows of 2 systems"):
        read_files([str(file)])
    assert len(read_files([str(file)], only="A")) == 2


def test_only_says_what_it_leaves(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("system,collective,ranks,bytes,time_us\nrack,all_reduce,8,8,9.5\n")
    with pytest.raises(sw.InvalidError, match=r"--only: got 'b', which leaves no row; .*rack"):
        read_files([str(file)], only="b")
    log = tmp_path / "run.log"
    log.write_text("# no table, and no system\n", encoding="utf-8")
    with pytest.raises(sw.InvalidError, match=r"--only: got 'b'; allowed: beside a CSV file"):
        read_files([str(log)], only="b")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_log_in_another_encoding_says_so(tmp_path: Path, encoding: str) -> None:
    log = tmp_path / "all_reduce.log"
    log.write_text(f"{EIGHT}{HEADINGS}\n{ROW}\n", encoding=encoding)
    said = rf"all_reduce\.log: encoding: got {encoding.upper()}; allowed: UTF-8"
    with pytest.raises(sw.InvalidError, match=said):
        read_files([str(log)])


def test_a_fit_is_not_written_over_the_system_from_which_it_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "mine.toml"
    own.write_text('kind = "system"\nbase = "dgx-h100"\n')
    log = str(LOGS / "one-node.log")
    assert main(["calibrate", "nccl", log, "--system", str(own), "--out", str(own)]) == 2
    assert "from which the fit starts" in capsys.readouterr().err


CELLS = "# 1024 256 float sum -1 27.31 N/A time algbw #wrong size count type [1,0]<stdout>: 0 1e999"
NOISE = "Rank Group Pid on device nThread nGpus all_reduce_perf timestamp busbw NCCL"
WORDS = st.sampled_from([*CELLS.split(), *NOISE.split(), "\n", "9" * 40, "# Avg bus bandwidth"])


@settings(max_examples=300)
@given(st.lists(st.one_of(WORDS, st.text(max_size=4)), max_size=60).map(" ".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    for start in ("", f"{EIGHT}{HEADINGS}\n"):
        try:
            rows = read_log("all_reduce.log", f"{start}{text}", None, None)
        except sw.ScalewrightError:
            continue
        used = [row for row in rows if isinstance(row, Measured)]
        assert all(row.time_s > 0 and row.ranks >= 2 and row.buffer_bytes > 0 for row in used)


@given(st.binary(max_size=200), st.sampled_from(["mine.csv", "mine.log"]))
def test_any_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    file = tmp_path_factory.mktemp("any") / name
    file.write_bytes(content)
    with pytest.raises(sw.ScalewrightError):
        read_files([str(file)])


def test_a_part_of_a_byte_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "part.csv"
    table.write_text("collective,ranks,bytes,time_us\nall_reduce,8,0.5,10\n")
    with pytest.raises(sw.ScalewrightError, match=r"bytes: got 0\.5"):
        read_files([str(table)])
