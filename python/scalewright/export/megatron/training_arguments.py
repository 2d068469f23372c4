"""Which Megatron-LM arguments set batch, number formats and optimizer?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.export.refusal import refuse_any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scalewright.export.megatron.model_arguments import Arguments

DROPOUT = 0.1
"""Megatron-LM's own rate, on scores and on residuals."""
FORMATS: dict[str, Arguments] = {
    "fp32": {},
    "fp16": {"fp16": True},
    "bf16": {"bf16": True},
    "fp8": {"bf16": True, "fp8-format": "hybrid", "fp8-recipe": "tensorwise"},
    "mxfp8": {"bf16": True, "fp8-format": "e4m3", "fp8-recipe": "mxfp8"},
}
"""Arguments by precision."""
GRADIENTS: dict[tuple[str, str], Arguments] = {
    ("fp32", "fp32"): {},
    ("fp16", "fp16"): {},
    ("fp16", "fp32"): {"accumulate-allreduce-grads-in-fp32": True},
    ("bf16", "fp32"): {},
    ("bf16", "bf16"): {"grad-reduce-in-bf16": True},
}
"""Arguments by format of activations and of gradients."""

_NAME = "Megatron-LM"


def training_arguments(
    plan: Mapping[str, Any], model: Mapping[str, Any], training: Mapping[str, Any]
) -> Arguments:
    """Return the arguments.

    Raises:
        InvalidError: Megatron-LM cannot train so.
    """
    precision, optimizer = training.get("precision", "bf16"), training.get("optimizer", "adam")
    state = training.get("state", "fp32")
    activation = precision if precision in ("fp32", "fp16") else "bf16"
    gradient = (activation, training.get("gradient", "fp32"))
    formats = ", ".join(name for kind, name in GRADIENTS if kind == activation)
    forward = bool(training.get("forward_only"))
    refuse_any(
        _NAME,
        [
            (forward, "training.forward_only", True, "false (pretrain_gpt.py trains)"),
            (state != "fp32", "training.state", state, "fp32"),
            (precision not in FORMATS, "training.precision", precision, ", ".join(FORMATS)),
            (gradient not in GRADIENTS, "training.gradient", gradient[1], formats),
            (optimizer not in ("adam", "sgd"), "training.optimizer", optimizer, "adam, sgd"),
        ],
    )
    arguments: Arguments = {
        "micro-batch-size": plan["micro_batch"],
        "global-batch-size": training["global_batch"],
        **FORMATS[precision],
        **GRADIENTS[gradient],
        "optimizer": optimizer,
        "attention-backend": _backend(model, training),
    }
    if model.get("experts") and activation == "bf16":
        arguments["moe-grouped-gemm"] = True  # Megatron-LM groups products in bf16 only
    if not training.get("fused_gradients", True):
        arguments["no-gradient-accumulation-fusion"] = True
    rate = DROPOUT if training.get("dropout") else 0.0
    arguments |= {"attention-dropout": rate, "hidden-dropout": rate}
    if tokens := training.get("run_tokens"):
        arguments["train-samples"] = max(round(tokens / training["sequence"]), 1)
    return arguments


def _backend(model: Mapping[str, Any], training: Mapping[str, Any]) -> str:
    if not training.get("flash_attention", True):
        return "unfused"
    # learnt sinks are no part of the flash kernel; the library then picks a fused one
    return "auto" if model.get("extra_parameters") else "flash"
