"""Are bytes, times and nodes of measured collectives read as nccl-tests counts them?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scalewright.calibration import calibrate, read_files
from scalewright.calibration.measured import Measured
from scalewright.cli import main
from scalewright.errors import InvalidError
from scalewright.planning import system
from scalewright.reproductions.collectives import holds_collectives, run
from scalewright.reproductions.collectives.cells import columns_of

if TYPE_CHECKING:
    from pathlib import Path

MIB = 2.0**20
NCCL_TESTS = "system,collective,ranks,size,count,type,time_us"


def written(folder: Path, head: str, *lines: str) -> Path:
    file = folder / "own.csv"
    file.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return file


def compared(folder: Path, head: str, *lines: str) -> list[dict[str, Any]]:
    """Return what a file comes to that is recognised by its columns."""
    file = written(folder, head, *lines)
    assert holds_collectives(file)
    return run(rows_path=file)["rows"]


@pytest.mark.parametrize(
    ("collective", "count"),
    [
        ("all_reduce", 262144),
        ("broadcast", 262144),
        ("sendrecv", 262144),
        ("all_gather", 32768),
        ("reduce_scatter", 32768),
        ("alltoall", 32768),
        ("gather", 32768),
    ],
)
def test_the_size_counts_where_a_count_stands_beside_it_and_the_count_else(
    tmp_path: Path, collective: str, count: int
) -> None:
    """nccl-tests prints the elements of one rank where ranks hold parts of the buffer."""
    both = [f"dgx-h100,{collective},8,{size},{count},float,900" for size in ("1048576", "")]
    sized, counted = compared(tmp_path, NCCL_TESTS, *both)
    assert (sized["bytes"], counted["bytes"]) == (MIB, MIB)
    assert sized["predicted_s"] == counted["predicted_s"]
    told = read_files([str(tmp_path / "own.csv")])
    assert [row.buffer_bytes for row in told if isinstance(row, Measured)] == [MIB, MIB]


def test_elements_of_aiconfigurators_tables_are_those_of_the_whole_buffer(tmp_path: Path) -> None:
    for heading in ("message_elements", "message_size"):
        head = f"system,op_name,nccl_dtype,num_gpus,{heading},latency_us"
        (row,) = compared(tmp_path, head, "h100_sxm,all_gather,half,8,524288,50")
        assert row["bytes"] == MIB


def test_a_message_size_that_may_be_bytes_or_elements_is_refused(tmp_path: Path) -> None:
    head = "system,collective,dtype,ranks,message_size,time_us"
    (row,) = compared(tmp_path, head, "dgx-h100,all_reduce,half,8,524288,50")
    assert "message_size: got '524288', bytes or elements" in row["reason"]
    assert "allowed: a column bytes, or message_elements" in row["reason"]


def test_a_count_without_a_collective_is_refused_where_none_is_usual(tmp_path: Path) -> None:
    file = tmp_path / "all_gather.csv"
    file.write_text("ranks,count,dtype,time_us\n8,32768,float,20\n", encoding="utf-8")
    with pytest.raises(InvalidError, match="count: got '32768' and no collective"):
        read_files([str(file)])
    (row,) = compared(tmp_path, "system,gpus,count,dtype,time_us", "dgx-h100,8,262144,float,40")
    assert (row["collective"], row["bytes"]) == ("all_reduce", MIB)


@pytest.mark.parametrize("size", ["0.5", "1000.7"])
def test_a_part_of_a_byte_is_refused_alike(tmp_path: Path, size: str) -> None:
    head = "system,collective,ranks,bytes,time_us"
    (row,) = compared(tmp_path, head, f"dgx-h100,all_reduce,8,{size},50")
    wanted = f"bytes: got {size}; allowed: a whole number, 1 or more"
    assert row["reason"] == wanted
    with pytest.raises(InvalidError, match=wanted):
        read_files([str(tmp_path / "own.csv")])


@pytest.mark.parametrize(
    ("heading", "figure"),
    [
        ("time_us", "200"),
        ("Latency [\u00b5s]", "200"),
        ("time_ms", "0.2"),
        ("Time (s)", "0.0002"),
        ("algbw_GBps", "5.24288"),
        ("busbw (GB/s)", "9.17504"),
    ],
)
def test_times_are_read_by_their_unit_or_made_of_a_rate(
    tmp_path: Path, heading: str, figure: str
) -> None:
    head = f"system,collective,ranks,bytes,{heading}"
    (row,) = compared(tmp_path, head, f"dgx-h100,all_reduce,8,1048576,{figure}")
    assert row["measured_s"] == pytest.approx(200e-6)


def test_a_time_beside_rates_is_in_microseconds_as_nccl_tests_prints_it(tmp_path: Path) -> None:
    head = "system,collective,ranks,size,count,type,redop,root,time,algbw,busbw,#wrong"
    lines = [f"dgx-h100,all_reduce,8,1048576,262144,float,sum,-1,{t},5.24,9.18,0" for t in (200, 2)]
    good, wrong = compared(tmp_path, head, *lines)
    assert good["measured_s"] == pytest.approx(200e-6)
    assert "algbw: got 5.24 GB/s beside 1048576 bytes in 2 us" in wrong["reason"]


def test_rates_that_a_time_in_another_unit_contradicts_are_refused(tmp_path: Path) -> None:
    head = "system,collective,ranks,bytes,time_ms,busbw"
    good, wrong = compared(
        tmp_path, head, *(f"dgx-h100,all_reduce,8,1048576,0.2,{rate}" for rate in (9.18, 5))
    )
    assert good["reason"] is None
    assert "busbw: got 5 GB/s beside 1048576 bytes in 0.2 ms on 8 ranks" in wrong["reason"]


@pytest.mark.parametrize("heading", ["time", "latency", "remarks"])
def test_a_table_of_collectives_without_the_unit_of_its_time_says_what_it_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], heading: str
) -> None:
    head = f"system,collective,ranks,bytes,{heading}"
    file = written(tmp_path, head, "dgx-h100,all_reduce,8,1048576,200")
    assert main(["reproduce", "--rows", str(file)]) == 2
    said = capsys.readouterr().err
    assert "got columns of collectives and no time with its unit; allowed: time_us" in said


@pytest.mark.parametrize(
    "head",
    [
        ["system", "gpus", "model", "seq", "size", "time_ms"],
        ["system", "gpus", "model", "count", "step time (ms)"],
        ["hardware", "gpus", "type", "model", "time_s"],
    ],
)
def test_training_runs_are_taken_for_no_collectives(tmp_path: Path, head: list[str]) -> None:
    assert not holds_collectives(written(tmp_path, ",".join(head), ",".join("1" * len(head))))


def test_a_type_is_the_format_where_no_other_column_is() -> None:
    assert columns_of(["collective", "type", "ranks"])[1] == "dtype"
    assert columns_of(["collective", "type", "dtype"])[1:] == [None, "dtype"]


@pytest.mark.parametrize(
    ("machines", "ranks", "nodes", "least"),
    [
        ("dgx-h100", 16, 1, "2 or more, of 8"),
        ("dgx-h100", 32, 2, "4 or more, of 8"),
        ("gb200-nvl72", 144, 1, "2 or more, of 72"),
        ("dgx-h100", 16, 2, None),
        ("dgx-h100", 16, 4, None),
        ("dgx-h100", 8, 1, None),
        ("gb200-nvl72", 72, 18, None),
        ("gb200-nvl72", 72, 1, None),
    ],
)
def test_nodes_that_have_fewer_devices_than_ranks_are_refused(
    tmp_path: Path, machines: str, ranks: int, nodes: int, least: str | None
) -> None:
    head = "system,collective,ranks,nodes,bytes,time_us"
    lines = [f"{machines},all_reduce,{ranks},{nodes},{2**n},{2.0**n / 2e3}" for n in range(20, 29)]
    rows = compared(tmp_path, head, *lines)
    file = str(tmp_path / "own.csv")
    if least is None:
        assert all(row["reason"] is None for row in rows)
        assert calibrate(read_files([file]), system(machines, ranks)).rows
        return
    wanted = f"nodes: got {nodes} for {ranks} ranks; allowed: {least} devices each"
    assert {row["reason"] for row in rows} == {wanted}
    with pytest.raises(InvalidError, match=f"own.csv, line 2: {wanted}"):
        calibrate(read_files([file]), system(machines, ranks))


def test_a_device_in_the_place_of_a_system_is_told_its_usual_one(tmp_path: Path) -> None:
    file = written(tmp_path, "collective,ranks,bytes,time_us", "all_reduce,8,1048576,60")
    (row,) = run(file, "h100-sxm")["rows"]
    assert row["reason"] == "system: got 'h100-sxm', a device; allowed: a system of it, as dgx-h100"
    (row,) = run(file, "moon")["rows"]
    assert "unknown name 'moon'" in row["reason"]
