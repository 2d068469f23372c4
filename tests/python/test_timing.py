"""Does the timing script time what the GPU does, and do its rows say what it ran?"""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from scalewright.calibration import calibrate_steps, pass_timing, step_timing, timed_steps, timing
from scalewright.calibration.step_constants import StepBench

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalewright.calibration import StepRun

RATE = "device.sustained.bf16"
BOARD = "NVIDIA H100 80GB HBM3"


class Gpu:
    """As much of `torch` as is asked to time something; it writes down what it is told."""

    def __init__(self) -> None:
        self.cuda = self
        self.told: list[str] = []
        self.OutOfMemoryError = MemoryError

    bfloat16 = "bfloat16"

    def synchronize(self) -> None:
        self.told.append("synchronize")

    def empty_cache(self) -> None: ...

    def _sleep(self, cycles: int) -> None:
        assert cycles >= 1_000_000
        self.told.append("wait")

    def Event(self, **_: object) -> Any:
        gpu = self

        class Event:
            def record(self) -> None:
                gpu.told.append("record")

            def elapsed_time(self, _: Event) -> float:
                return 0.25

        return Event()

    def launch(self) -> None:
        self.told.append("launch")

    class CUDAGraph:
        def replay(self) -> None: ...

    class graph:
        def __init__(self, made: Any) -> None: ...

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...


def test_the_clock_starts_behind_a_wait_in_which_the_host_launches() -> None:
    gpu = Gpu()
    assert pass_timing.median_behind_waits(gpu, gpu.launch, 2, 1_000_000) == 250.0
    each = ["wait", "record", "launch", "record", "synchronize"]
    assert gpu.told == ["synchronize", *each, *each]


@pytest.mark.parametrize("median", [pass_timing._median, timing._median])
def test_passes_and_products_are_both_timed_so(median: Any) -> None:
    gpu = Gpu()
    assert median(gpu, gpu.launch) > 0.0
    starts = [place for place, word in enumerate(gpu.told) if word == "wait"]
    assert starts
    assert all(gpu.told[place + 1] == "record" for place in starts)
    assert gpu.told.count("record") == 2 * len(starts)


@pytest.mark.parametrize("what", ["attention", "step", "passes", "programs"])
def test_what_a_warm_cache_does_not_change_refuses_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    assert timing.main([what, "--warm", "--out", str(tmp_path / "out.csv")]) == 2
    assert f"warm: got True; allowed for {what}: False" in capsys.readouterr().err


@pytest.mark.parametrize("warm", [True, False])
def test_a_file_of_products_says_that_weights_stayed_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: bool
) -> None:
    gpu = Gpu()
    gpu.randn = lambda *_, **__: None  # type: ignore[attr-defined]
    monkeypatch.setattr(timing, "_torch", lambda: gpu)
    monkeypatch.setattr(timing, "_device", lambda *_: ("h100-sxm", 5e7))
    monkeypatch.setattr(timing, "_microseconds", lambda *_: 20.0)
    monkeypatch.setattr(timing, "shapes", lambda: [(16, 4096, 4096)])
    out = tmp_path / "out.csv"
    assert timing.main(["gemm", "--out", str(out), *(["--warm"] if warm else [])]) == 0
    with out.open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert row.get("warm") == ("yes" if warm else None)


def rows_of_the_script(path: Path, seconds: Sequence[float] | None = None) -> str:
    """Write rows as the script does, each step a second long unless said."""
    shapes = step_timing.step_shapes()
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(step_timing.TIMED_COLUMNS)
        for shape, time in zip(shapes, seconds or [1.0] * len(shapes), strict=True):
            row = shape.row(BOARD, "pure bfloat16", float(time))
            writer.writerow([*row, step_timing.PROFILE])
    return str(path)


def test_rows_of_steps_name_the_profile_of_what_the_script_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_timing, "_step", lambda *_: None)
    monkeypatch.setattr(step_timing, "_seconds", lambda *_: 1.0)
    found = list(step_timing.timed_steps(Gpu(), BOARD, "bfloat16", 3))
    file = Path(rows_of_the_script(tmp_path / "steps.csv"))
    wanted = list(csv.reader(file.read_text(encoding="utf-8").splitlines()))[1:4]
    assert [[str(cell) for cell in row] for row in found] == wanted
    runs, wrong = timed_steps([str(tmp_path / "steps.csv")])
    assert not wrong
    for run in runs:
        assert run.software == "eager-gpt-2026"
        assert run.training["state"] == run.training["gradient"] == "bf16"
        assert not run.searched


def as_autograd_sums(runs: Sequence[StepRun]) -> np.ndarray[Any, Any]:
    """Return times where the first gradient is kept and a kernel of its own adds each further."""

    def priced(changed: list[StepRun]) -> np.ndarray[Any, Any]:
        return np.asarray(StepBench(changed).times({}))

    apart = [replace(r, training={**r.training, "fused_gradients": False}) for r in runs]
    kept: list[StepRun] = []
    for run in runs:
        software = run.training["software"]
        weights = {**software.get("weights", {}), "plain_gradients": True}
        changed = {**run.training, "software": {**software, "weights": weights}}
        kept.append(replace(run, training=changed))
    steps = np.array([s.global_batch // s.micro_batch for s in step_timing.step_shapes()])
    return priced(kept) / steps + priced(apart) * (steps - 1) / steps


def test_the_flow_leaves_the_rate_that_lasts_where_it_is(tmp_path: Path) -> None:
    runs, _ = timed_steps([rows_of_the_script(tmp_path / "steps.csv")])
    times = as_autograd_sums(runs) * np.exp(np.random.default_rng(9).normal(0.0, 0.02, len(runs)))
    measured, _ = timed_steps([rows_of_the_script(tmp_path / "own.csv", times.tolist())])
    found = calibrate_steps(measured)
    (rate,) = (line for line in found.to_dict()["constants"] if line["name"] == RATE)
    assert rate["after"] == pytest.approx(rate["before"], rel=0.02)
