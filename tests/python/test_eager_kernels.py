"""Do profiles of eager programs say what kernels and steps of theirs took on a GPU?"""

from __future__ import annotations

import csv
import json
from statistics import mean, median
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalewright import catalog
from scalewright.calibration.program_runs import COLUMNS, RUNS
from scalewright.catalog.layers import built_in_root
from scalewright.cli import main
from scalewright.config import Plan, Training
from scalewright.errors import InvalidError
from scalewright.planning import Job, estimate_job, model, system
from scalewright.reproductions.comparing import run as reproduce
from scalewright.reproductions.machine import Machines
from scalewright.reproductions.reading import Row
from scalewright.reproductions.setting import setting_of

if TYPE_CHECKING:
    from pathlib import Path

PUBLISHED = built_in_root() / "published"
RATE = 0.9 * 3.35e12
"""Bytes a second of a pass over the main memory of an H100, as the catalog has it."""
LARGE = {"4096", "2048"}


def table(place: str) -> list[dict[str, str]]:
    with (PUBLISHED / place).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def bytes_of(kernel: str, kind: str = "bf16") -> list[float]:
    """Bytes an element forward and backward, mean over the shapes of 8,192 rows; of losses all."""
    rows = [r for r in table("passes/h100-sxm.csv") if (r["kernel"], r["format"]) == (kernel, kind)]
    loss = kernel == "ForCausalLMLoss"
    rows = [r for r in rows if loss or (r["rows"] == "8192" and r["width"] in LARGE)]
    assert rows, kernel
    return [
        mean(
            float(row[pass_]) * 1e-6 * RATE / (float(row["rows"]) * float(row["width"]))
            for row in rows
        )
        for pass_ in ("forward_us", "backward_us")
    ]


def software(name: str) -> dict[str, Any]:
    training, _ = catalog.with_software(name, {}, catalog.load_device("h100-sxm"))
    tables = (table for table in training["software"].values() if isinstance(table, dict))
    return {field: value for table in tables for field, value in table.items()}


@pytest.mark.parametrize(
    ("profile", "figure", "kernel", "kind"),
    [
        ("eager-llama", "norm", "LlamaRMSNorm", "bf16"),
        ("eager-llama", "gated_activation", "silu and product", "bf16"),
        ("eager-llama", "rotary", "apply_rotary_pos_emb, head of 128", "bf16"),
        ("eager-gpt2", "activation", "NewGELUActivation", "bf16"),
        ("torchtitan-eager-2026", "norm", "torch.nn.RMSNorm", "bf16"),
    ],
)
def test_passes_of_a_profile_are_what_its_kernels_took(
    profile: str, figure: str, kernel: str, kind: str
) -> None:
    timed = [taken / 2 for taken in bytes_of(kernel, kind)]
    assert software(profile)[figure] == pytest.approx(timed, rel=0.05)


def test_losses_and_updates_of_eager_programs_are_what_they_took() -> None:
    assert software("eager-llama-2026")["loss"] == pytest.approx(
        bytes_of("ForCausalLMLoss"), rel=0.05
    )
    updates = {(r["update"], r["format"]): r for r in table("passes/updates-h100-sxm.csv")}
    for profile, kind in (("eager-llama", "AdamW foreach"), ("fused-adamw", "AdamW fused")):
        row = updates[kind, "fp32"]
        taken = float(row["bytes_per_element"]) + float(row["clipping_bytes_per_element"])
        assert software(profile)["update"] == pytest.approx(taken, rel=0.01)
        narrow = updates[kind, "bf16"]
        taken = float(narrow["bytes_per_element"]) + float(narrow["clipping_bytes_per_element"])
        assert software(profile)["update_narrow"] == pytest.approx(taken, rel=0.01)
        held = software(profile)["update_held"] * 4
        assert held == float(row["held_bytes_per_element"])


def test_rows_of_timed_steps_are_the_runs_of_the_script() -> None:
    rows = table("timed_steps.csv")
    assert len(rows) == 2 * len(RUNS)
    assert tuple(rows[0]) == COLUMNS
    for place, run in enumerate(RUNS):
        both = rows[2 * place : 2 * place + 2]
        parameters = round(float(both[0]["params_B"] or 0) * 1e9)
        for row, told in zip(both, run.rows("H100 SXM", "", parameters, 1.0, 1), strict=True):
            wanted = dict(zip(COLUMNS, map(str, told), strict=True))
            given = {c: row[c] for c in COLUMNS if c not in {"value", "source"}}
            assert given == {c: wanted[c] for c in given}


def test_steps_and_memory_of_programs_on_one_h100_are_met() -> None:
    results = reproduce("Steps timed on H100 SXM")["rows"]
    assert len(results) == 2 * len(RUNS)
    errors = {"memory": [], "time": []}
    for result in results:
        assert result["error"] is not None, result["reason"]
        errors["memory" if result["kind"] == "memory" else "time"].append(abs(result["error"]))
    times, memory = errors["time"], errors["memory"]
    print(f"steps: median {median(times):.1%}, worst {max(times):.1%}")
    print(f"memory: mean {mean(memory):.1%}, worst {max(memory):.1%}")
    assert len(times) == len(memory) == len(RUNS)
    assert median(times) < 0.05
    assert max(memory) < 0.08


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["llama3.2-1b", "qwen3-1.7b", "gpt2-xl"]),
    st.sampled_from(["", "eager-llama", "eager-gpt2", "fused-adamw"]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from(["none", "full"]),
)
def test_pure_bf16_never_needs_more_memory_or_time_than_wide_state(
    name: str, profile: str, micro_batch: int, recompute: str
) -> None:
    def priced(state: str) -> Any:
        training = Training(4, 2048, state=state, gradient=state)
        job = Job(model(name), system("dgx-h100", 1), training)
        if profile:
            job = job.with_software(profile)
        return estimate_job(job, Plan(micro_batch=micro_batch, recompute=recompute))

    wide, narrow = priced("fp32"), priced("bf16")
    assert narrow.peak_memory_bytes < wide.peak_memory_bytes
    assert narrow.step_time_s < wide.step_time_s


def test_state_narrower_than_activations_is_refused_by_name() -> None:
    job = Job(
        model("gpt2"), system("dgx-h100", 1), Training(4, 1024, precision="fp16", state="bf16")
    )
    with pytest.raises(InvalidError, match=r"training\.state.*bf16.*fp32, or that of act.*fp16"):
        estimate_job(job, Plan())


@pytest.mark.parametrize(
    ("words", "state"),
    [
        ("pure bf16", "bf16"),
        ("bf16-true", "bf16"),
        ("pure_bf16", "bf16"),
        ("BF16 (pure)", "bf16"),
        ("not pure bf16", None),
        ("pure bf16, fp32 master weights", None),
        ("bf16", None),
        ("bf16-mixed", None),
    ],
)
def test_a_row_may_say_that_weights_are_updated_in_bf16(words: str, state: str | None) -> None:
    cells = {"paper": "A page", "hardware": "H100", "devices": "1", "model": "gpt2"}
    cells |= {"sequence": "1024", "global_batch": "8", "metric": "iteration_time", "dtype": words}
    training = setting_of(Row("own.csv", 2, cells), Machines()).training
    assert training["precision"] == "bf16"
    assert training.get("state") == state


def test_the_command_takes_the_format_of_the_state(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["estimate", "--model", "llama3.2-1b", "--system", "dgx-h100", "--devices", "1"]
    asked += ["--global-batch", "2", "--sequence", "4096", "--micro-batch", "2", "--json"]
    peaks: list[float] = []
    for state in ("fp32", "bf16"):
        assert main([*asked, "--state", state]) == 0
        peaks.append(json.loads(capsys.readouterr().out)["peak_memory_bytes"])
    # 16 bytes a parameter of weights, gradient and state become 8 (two copies more in fp32)
    assert peaks[1] < peaks[0] - 8 * 1.2e9


@pytest.mark.parametrize("micro_batch", ["1", "2"])
def test_state_and_activations_of_a_row_do_not_depend_on_the_fullest_moment(
    micro_batch: str, tmp_path: Path
) -> None:
    head = (
        "model,system,devices,seq,global_batch,micro_batch,dtype,software_profile,metric,value,unit"
    )
    row = f"llama3.2-1b,h100-sxm,1,2048,2,{micro_batch},pure bf16,eager-llama"
    figures = {
        "activation_memory_per_gpu": "1",
        "weights_grads_optimizer_memory_per_gpu": "9.886",
    }
    lines = [f"{row},{metric},{value},GB" for metric, value in figures.items()]
    file = tmp_path / "own.csv"
    file.write_text("\n".join([head, *lines]), encoding="utf-8")
    kept, state = reproduce(rows_path=file)["rows"]
    # 2 bytes of weight, 2 of gradient and 4 of moments a parameter
    assert state["predicted"] == pytest.approx(8 * 1.2358, rel=1e-3)
    assert kept["predicted"] > 1
