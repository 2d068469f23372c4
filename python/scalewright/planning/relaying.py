"""When does a step end on one device whose weights come from the host a layer at a time?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalewright import _engine
from scalewright.config import json_text, named_as, need, need_count
from scalewright.errors import InvalidError
from scalewright.planning.arguments import floats, spread
from scalewright.planning.stamp import Answer

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class LayerRelay(Answer):
    """A step of layer-to-layer execution.

    Attributes:
        step_time_s: Until the host has updated the last layer; the next step cannot begin before.
        device_s: Until the device has run the last backward pass.
        compute_s: Passes alone.
        load_s: The link from the host is busy.
        store_s: The link to the host is busy.
        optimizer_s: The host is busy.
        lower_bound_s: The busiest of these four.
        device_bytes: What the device holds at most.
        input_bytes: Of that, inputs of layers kept for the backward pass.
    """

    step_time_s: float
    device_s: float
    compute_s: float
    load_s: float
    store_s: float
    optimizer_s: float
    lower_bound_s: float
    device_bytes: float
    input_bytes: float

    @property
    def exposed_s(self) -> float:
        """Return the part of the step in which the device does not compute."""
        return self.step_time_s - self.compute_s


def layer_relay(
    forward_s: ArrayLike,
    backward_s: ArrayLike,
    micro_batches: int,
    *,
    load_s: ArrayLike = 0.0,
    store_s: ArrayLike = 0.0,
    optimizer_s: ArrayLike = 0.0,
    input_s: ArrayLike = 0.0,
    weight_bytes: ArrayLike = 0.0,
    gradient_bytes: ArrayLike = 0.0,
    input_bytes: ArrayLike = 0.0,
    working_bytes: ArrayLike = 0.0,
    buffers: int = 2,
    offload_inputs: bool = False,
) -> LayerRelay:
    """Time a step of layer-to-layer execution (L2L): all micro-batches run through a layer in turn.

    Weights of the next layers load beside compute, gradients leave by the other direction of the
    link, and the host updates layer after layer. Times and sizes are lists with an entry per layer;
    all but `forward_s` may be one number.

    Args:
        forward_s: Forward pass of one micro-batch.
        backward_s: Backward pass, with the forward pass run anew: only a layer's input is kept.
        micro_batches: Micro-batches of a step.
        load_s: Weights from the host.
        store_s: Gradients to the host.
        optimizer_s: Update of the weights on the host.
        input_s: The layer's input for one micro-batch to the host, or from it.
        weight_bytes: Weights.
        gradient_bytes: Gradients.
        input_bytes: The layer's input for one micro-batch.
        working_bytes: What passes hold while they run.
        buffers: Layers whose weights the device holds at once; 2 load one while another computes.
        offload_inputs: Kept inputs go to the host and come back.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    need_count("micro_batches", micro_batches)
    need_count("buffers", buffers)
    need("offload_inputs", offload_inputs, bool, "True or False")
    passes = floats("forward_s", forward_s)
    if passes.ndim != 1 or passes.size == 0:
        message = f"forward_s: got shape {passes.shape}; allowed: a list with an entry per layer"
        raise InvalidError(message)
    given = {
        "forward_s": passes,
        "backward_s": backward_s,
        "load_s": load_s,
        "store_s": store_s,
        "optimizer_s": optimizer_s,
        "input_s": input_s,
        "weight_bytes": weight_bytes,
        "gradient_bytes": gradient_bytes,
        "input_bytes": input_bytes,
        "working_bytes": working_bytes,
    }
    columns = {field: spread(field, of, passes.shape).tolist() for field, of in given.items()}
    asked = {
        "layers": [{field: of[i] for field, of in columns.items()} for i in range(len(passes))],
        "micro_batches": micro_batches,
        "buffers": buffers,
        "offload_inputs": offload_inputs,
    }
    with named_as({r"layers(\[\d+\])\.(\w+)": r"\2\1"}):
        return LayerRelay(**json.loads(_engine.layer_relay(json_text("", asked))))
