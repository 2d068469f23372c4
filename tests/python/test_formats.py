"""What do number formats change: rates of products, bytes of what is held?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from scalewright._engine import Cluster, Job, Workload, estimate
from scalewright.catalog import load_device, load_model, load_system, names

MODEL = load_model("llama2-7b")
LORA = {**MODEL, "lora": {"rank": 16, "targets": ["query", "key", "value", "output"]}}
PLAN = json.dumps({"micro_batch": 1})


def answer(device: str, precision: str, model: dict[str, Any] = MODEL) -> dict[str, Any]:
    """Return the estimate of a step on one device with ample memory."""
    fields = load_device(device)
    fields["tiers"][-1]["capacity"] = "1 TiB"
    system = {**load_system("dgx-a100-80gb"), "device": device}
    cluster = Cluster(json.dumps({"device": fields, "system": system, "devices": 1}))
    training = {"global_batch": 1, "sequence": 1024, "precision": precision}
    job = Job(Workload(json.dumps(model)), cluster, json.dumps(training))
    return json.loads(estimate(job, PLAN))["estimate"]


def multiplies(device: str, *formats: str) -> bool:
    """Say whether a device has matrix engines for all of some formats."""
    return set(formats) <= load_device(device)["matrix"].keys()


@pytest.mark.parametrize("device", [d for d in names("device") if multiplies(d, "tf32")])
def test_tf32_is_no_slower_than_fp32_and_holds_as_much(device: str) -> None:
    wide, rounded = answer(device, "fp32"), answer(device, "tf32")
    assert rounded["step_time_s"] <= wide["step_time_s"]
    # the engines of GeForce boards round at the rated speed of vectors, of which products in fp32
    # reach two thirds
    shares = load_device(device)["matmul"]["efficiency"]
    usual = 0.8
    rates = [
        found["peak_flops_per_s_per_device"] * shares.get(name, usual)
        for name, found in (("fp32", wide), ("tf32", rounded))
    ]
    assert (rounded["step_time_s"] < wide["step_time_s"]) == (rates[0] < rates[1])
    assert rounded["peak_memory_bytes"] == wide["peak_memory_bytes"]


@pytest.mark.parametrize("device", ["v100-sxm-32gb", "mi250x"])
def test_tf32_is_fp32_where_no_engine_rounds_operands(device: str) -> None:
    assert answer(device, "tf32")["step_time_s"] == answer(device, "fp32")["step_time_s"]


@pytest.mark.parametrize("precision", ["fp8", "mxfp8", "nvfp4"])
def test_weights_that_are_not_trained_are_held_in_one_format(precision: str) -> None:
    def held(model: dict[str, Any], precision: str) -> float:
        (stage,) = answer("b200-sxm", precision, model)["memory"]
        return float(stage["weights_bytes"])

    ends = 2 * MODEL["vocab"] * MODEL["hidden"]
    counts = Workload(json.dumps(LORA)).parameters()
    frozen = counts["total"] - counts["trained"]
    share = {"fp8": 1.0, "mxfp8": 1.0 + 1 / 32, "nvfp4": 0.5 + 1 / 16}[precision]
    # embedding and head stay wide, adapters are held in both formats
    wanted = (frozen - ends) * share + 2 * ends + counts["trained"] * (2 + share)
    assert held(LORA, precision) == pytest.approx(wanted, rel=1e-3)
    assert held(LORA, precision) < held(LORA, "bf16") < held(MODEL, precision)
