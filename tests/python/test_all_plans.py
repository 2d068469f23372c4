"""Does the file of all plans hold each plan that is legal and fits, once, with its price?"""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scalewright as sw
from scalewright.config import FIELDS

MODEL = sw.model("gpt2-xl")
SYSTEM = sw.system("dgx-a100-80gb", devices=16)
TRAINING = sw.Training(global_batch=64, sequence=1024)
SCHEDULES = [rule.name for rule in sw.schedules()]
RECOMPUTE = ["none", "selective", "full"]
VALUES: dict[str, list[Any]] = {
    "tensor": [1, 2, 4],
    "pipeline": [1, 2, 4, 8],
    "data": [1, 2, 4, 8, 16],
    "micro_batch": [1, 2, 4, 8],
    "interleave": [1, 2, 3],
    "schedule": ["1f1b", "interleaved", "gpipe"],
    "zero": [0, 1, 3],
    "recompute": RECOMPUTE,
    "sequence_parallel": [False, True],
}
"""Every value of the space, of which most combinations break a rule."""
REST = {name: value for name, value in sw.Plan().to_dict().items() if name not in VALUES}
FIX = {**REST, **VALUES}


def written(path: Path, **asked: Any) -> tuple[sw.Search, pa.Table]:
    found = sw.search(MODEL, SYSTEM, TRAINING, fix=FIX, rows=path, **asked)
    if path.suffix == ".parquet":
        return found, pq.read_table(path)
    return found, pa.ipc.open_file(path).read_all()


def numbers(name: str, values: Any) -> Any:
    """The numbers under which `estimate_many` takes the values of a field."""
    names = {"schedule": SCHEDULES, "recompute": RECOMPUTE}.get(name)
    return np.array([names.index(value) if names else int(value) for value in values])


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_the_rows_are_those_of_brute_force(ending: str, tmp_path: Path) -> None:
    found, table = written(tmp_path / f"plans{ending}")
    combinations = list(zip(*product(*VALUES.values()), strict=True))
    columns = {
        name: numbers(name, values) for name, values in zip(VALUES, combinations, strict=True)
    }
    # fields that follow from others: sends overlap where the schedule interleaves
    interleaved = columns["schedule"] == SCHEDULES.index("interleaved")
    columns["overlap_pipeline"] = interleaved.astype(int)
    prices = sw.estimate_many(MODEL, SYSTEM, columns, TRAINING)
    wanted = {
        plan: (time, memory)
        for plan, time, memory in zip(
            zip(*(columns[name][prices.fits].tolist() for name in VALUES), strict=True),
            prices.step_time_s[prices.fits],
            prices.peak_memory_bytes[prices.fits],
            strict=True,
        )
    }
    got = {
        plan: (time, memory)
        for plan, time, memory in zip(
            zip(*(numbers(name, table[name].to_pylist()).tolist() for name in VALUES), strict=True),
            table["step_time_s"].to_pylist(),
            table["peak_memory_bytes"].to_pylist(),
            strict=True,
        )
    }
    assert len(got) == table.num_rows == found.values["plans_written"] > 100
    assert got == wanted
    assert min(time for time, _ in got.values()) == found[0].step_time_s


def test_every_plan_field_is_a_column_of_its_kind(tmp_path: Path) -> None:
    _, table = written(tmp_path / "plans.parquet", top=1)
    assert table.column_names[:-2] == [name for name in FIELDS if name in table.column_names]
    assert set(table.column_names[:-2]) == set(FIELDS)
    for name, kind in FIELDS.items():
        held = table.schema.field(name).type
        assert (pa.types.is_dictionary(held), pa.types.is_boolean(held)) == (
            kind == "str",
            kind == "bool",
        ), name
    row = {name: column[0].as_py() for name, column in zip(table.column_names, table, strict=True)}
    time, memory = row.pop("step_time_s"), row.pop("peak_memory_bytes")
    one = sw.estimate(MODEL, SYSTEM, row, TRAINING)
    assert (one.step_time_s, one.peak_memory_bytes) == (time, memory)


def test_ctrl_c_leaves_no_half_file_and_the_one_that_was_there(tmp_path: Path) -> None:
    file = tmp_path / "plans.parquet"
    file.write_text("what was there")
    ended: list[bool] = []

    def progress(done: int, total: int) -> None:
        if ended and done < total:
            raise KeyboardInterrupt
        if done == total:
            ended.append(True)

    found = sw.search(MODEL, SYSTEM, TRAINING, fix=FIX, rows=file, progress=progress)
    assert found.stopped
    assert found.values["plans_written"] is None
    assert found.proven, "the search itself was done"
    assert file.read_text() == "what was there"
    assert list(tmp_path.iterdir()) == [file]


def test_a_search_that_is_stopped_writes_no_file(tmp_path: Path) -> None:
    def progress(*_: int) -> None:
        raise KeyboardInterrupt

    found = sw.search(MODEL, SYSTEM, TRAINING, rows=tmp_path / "plans.arrow", progress=progress)
    assert found.values["plans_written"] is None
    assert list(tmp_path.iterdir()) == []


def test_a_space_without_plans_makes_an_empty_file(tmp_path: Path) -> None:
    file = tmp_path / "plans.parquet"
    found = sw.search(MODEL, SYSTEM, TRAINING, fix={"tensor": 3}, rows=file, offload="never")
    assert not found.feasible
    table = pq.read_table(file)
    assert table.num_rows == found.values["plans_written"] == 0
    assert "step_time_s" in table.column_names


@pytest.mark.parametrize("name", ["plans.csv", "plans", ".parquet", "plans.PARQUET"])
def test_another_ending_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(sw.InvalidError, match=r"rows: got .*\.parquet or \.arrow"):
        sw.search(MODEL, SYSTEM, TRAINING, rows=tmp_path / name)
