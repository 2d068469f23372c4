"""Which batch, number formats and optimizer do Megatron-LM arguments ask for?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.export.megatron.training_arguments import DROPOUT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scalewright.export.megatron.options import Options

_BACKENDS = {"auto": True, "flash": True, "fused": True, "unfused": False, "local": False}
_RECIPES = {"delayed": "fp8", "tensorwise": "fp8", "blockwise": "fp8", "mxfp8": "mxfp8"}


def read_training(options: Options, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the training.

    Raises:
        InvalidError: An argument is missing or wrong.
    """
    batch, sequence = _batch(options, plan), options.count("seq-length")
    precision = _precision(options)
    rates = [options.number(f"{part}-dropout", DROPOUT) for part in ("attention", "hidden")]
    training: dict[str, Any] = {
        "global_batch": batch,
        "sequence": sequence,
        "precision": precision,
        "gradient": _gradient(options, precision),
        "fused_gradients": not options.has("no-gradient-accumulation-fusion"),
        "optimizer": options.choice("optimizer", {"adam": "adam", "sgd": "sgd"}, "adam"),
        "flash_attention": _flash(options),
        "dropout": any(rate > 0 for rate in rates),
    }
    samples = options.count("train-iters", 0) * batch if options.has("train-iters") else 0
    if samples := options.count("train-samples", samples):
        training["run_tokens"] = float(samples * sequence)
    return training


def _batch(options: Options, plan: Mapping[str, Any]) -> int:
    """Read the sequences of a step: one micro-batch a replica unless said otherwise."""
    usual = plan["micro_batch"] * plan["data"] if "data" in plan else None
    return options.count("global-batch-size", usual)


def _precision(options: Options) -> str:
    if options.has("fp4-format"):
        raise options.wrong(name="fp4-format", allowed="nothing: fp4 is not priced")
    if options.has("fp8-format"):
        if options.text("fp8-recipe") == "blockwise":
            options.drop("fp8-recipe")  # priced as one scale per tensor
        return options.choice("fp8-recipe", _RECIPES, "delayed")
    return next((name for name in ("bf16", "fp16") if options.has(name)), "fp32")


def _gradient(options: Options, precision: str) -> str:
    if precision == "fp16":
        return "fp32" if options.has("accumulate-allreduce-grads-in-fp32") else "fp16"
    bf16 = precision != "fp32" and options.has("grad-reduce-in-bf16")
    return "bf16" if bf16 else "fp32"


def _flash(options: Options) -> bool:
    if options.has("use-flash-attn"):
        return True
    local = options.text("transformer-impl") == "local" or options.has("use-legacy-models")
    return options.choice("attention-backend", _BACKENDS, "local" if local else "auto")
