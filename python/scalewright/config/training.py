"""How is a model trained: batch, sequence, number formats, optimizer?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from types import NoneType

from scalewright.config.kinds import need, plain


@dataclass(frozen=True)
class Training:
    """What stays the same while plans vary; the engine checks the values.

    Attributes:
        global_batch: Sequences per optimizer step.
        sequence: Tokens per sequence.
        precision: `fp32`, `tf32` (fp32, with products on engines that round operands), `fp16`,
            `bf16`, `fp8`, `mxfp8` or `nvfp4`.
        gradient: Format in which gradients are summed and reduced.
        state: Format of the optimizer's moments and of the weights that it updates: `fp32`, or the
            activations', where no wider copy of the weights exists (training in pure bf16).
        fused_gradients: Weight gradients are added to their sum inside the product's own kernel.
        optimizer: `adam`, `sgd`, `adafactor` or `muon`.
        flash_attention: Fused attention kernels; without them the scores go through memory.
        dropout: Dropout on scores and residuals, as in older GPT recipes.
        forward_only: No gradients, no optimizer.
        run_tokens: Length of the whole run, for its time, energy and price.
        goodput: Share of the run's time in which its steps count, above 0 to 1; failures, what is
            trained again after them and checkpoints take the rest.
        software: What the program does beside the model's products, as `Job.with_software` fills it
            in from a profile; none: fused kernels launched ahead of the device.
    """

    global_batch: int
    sequence: int
    precision: str = "bf16"
    gradient: str = "fp32"
    state: str = "fp32"
    fused_gradients: bool = True
    optimizer: str = "adam"
    flash_attention: bool = True
    dropout: bool = False
    forward_only: bool = False
    run_tokens: float | None = None
    goodput: float = 1.0
    software: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        """Take numbers of NumPy for Python's own, which never wrap around.

        Raises:
            InvalidError: `software` is no table, as where it is the name of a profile.
        """
        for field in fields(self):
            object.__setattr__(self, field.name, plain(getattr(self, field.name)))
        # a profile says things of the device too, which no training holds
        allowed = "none or a table, as Job(model, system, training).with_software(NAME) fills it in"
        need("training.software", self.software, (Mapping, NoneType), allowed)

    def to_dict(self) -> dict[str, object]:
        """Return the fields, as the engine reads them."""
        values = asdict(self)
        if self.software is None:
            del values["software"]
        return values
