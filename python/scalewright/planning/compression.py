"""What do ranks save that send fewer bytes or talk less often, and when do they lose by it?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.config import json_text, named_as, need, need_count, need_number
from scalewright.planning.inputs import System

if TYPE_CHECKING:
    AnyPayload = str | Mapping[str, object]


@dataclass(frozen=True)
class Exchange:
    """What a step's exchange costs, against an all-reduce of the whole buffer in each step.

    Attributes:
        system: The system on which gradients are exchanged.
        question: What was asked, as the engine read it.
        values: Every field that the engine gives, as in `to_dict`.
    """

    system: System
    question: Mapping[str, Any]
    values: Mapping[str, Any]

    @property
    def sent_bytes(self) -> float:
        """Return the bytes that a rank sends a step, on average."""
        return self.values["sent_bytes"]

    @property
    def plain_sent_bytes(self) -> float:
        """Return the bytes that a rank sends by the plain all-reduce."""
        return self.values["plain_sent_bytes"]

    @property
    def rounds_per_step(self) -> float:
        """Return the rounds a step."""
        return self.values["rounds_per_step"]

    @property
    def time_s(self) -> float:
        """Return the time a step, on average."""
        return self.values["time_s"]

    @property
    def worst_time_s(self) -> float:
        """Return the time of the dearest step."""
        return self.values["worst_time_s"]

    @property
    def plain_time_s(self) -> float:
        """Return the time of the plain all-reduce."""
        return self.values["plain_time_s"]

    @property
    def loses(self) -> bool:
        """Say whether a step takes longer on average than with the plain all-reduce."""
        return self.time_s > self.plain_time_s

    @property
    def break_even_bytes(self) -> float | None:
        """Return the buffer size from which on it never loses; None where large buffers lose."""
        return self.values["break_even_bytes"]

    @property
    def losing_bytes(self) -> tuple[tuple[float, float | None], ...]:
        """Return the buffer sizes that lose, from and to; None: without end."""
        return tuple((start, end) for start, end in self.values["losing_bytes"])

    def to_dict(self) -> dict[str, Any]:
        """Return the stamped answer, ready for JSON."""
        return {
            **self.system.stamp(),
            "question": dict(self.question),
            **self.values,
        }


def compressed_all_reduce(
    payload: AnyPayload,
    buffer_bytes: float,
    system: System,
    ranks: int | None = None,
    *,
    stride: int = 1,
    dtype: str = "bf16",
) -> Exchange:
    """Price an all-reduce whose buffer travels in another format.

    Args:
        payload: `fp32`, `fp16`, `bf16`, `fp8`, `mxfp8`, `int8`, `nvfp4` or `one_bit`; or fields:
            `format` with `block` (elements to a scale, for `fp8`, `int8`, `one_bit`), or
            `{"format": "top_k", "share": 0.01}` with `values` (their format). With `nodes_first`,
            ranks of a node add up at full precision, and coded chunks pass between nodes only.
        buffer_bytes: The buffer of one rank, in `dtype`.
        system: The machines.
        ranks: Members of the group; all devices where left out.
        stride: Distance between neighbours of the group.
        dtype: Format in which ranks hold the buffer: `fp32`, `bf16` or `fp16`.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    need("payload", payload, (str, Mapping), "a format, as int8, or fields")
    asked = _asked(system, ranks, stride, buffer_bytes, dtype)
    return _exchange(system, {**asked, "payload": _payload(payload)})


def averaging(
    policy: str,
    buffer_bytes: float,
    system: System,
    ranks: int | None = None,
    *,
    stride: int = 1,
    dtype: str = "bf16",
    payload: AnyPayload | None = None,
    **settings: object,
) -> Exchange:
    """Price a policy by which ranks talk in some steps only, or in few bits, or with neighbours.

    Args:
        policy: One of these, with their settings as keywords:
            `one_bit_adam`: `steps`, `warm_up_steps`;
            `zero_one_adam`: `steps`, `variance_freeze_step`, `updates_per_doubling`,
            `steps_per_doubling`, `longest_interval`;
            `local`: `every` (steps between averages of the model), `steps`;
            `stages`: `stages`, a list of `{"steps": ..., "interval": ..., "full_every": ...}`;
            `gossip`: `graph` (`ring`, `torus`, `complete`, `hypercube`, `exponential` or
            `one_peer_exponential`), `every`, `sides` (of the torus).
        buffer_bytes: The buffer of one rank, in `dtype`.
        system: The machines.
        ranks: Members of the group; all devices where left out.
        stride: Distance between neighbours of the group.
        dtype: Format in which ranks hold the buffer and send it in full rounds.
        payload: How compressed rounds send it, as in `compressed_all_reduce`; left out: `one_bit`,
            but as held for `local` and `gossip`.
        **settings: Those of the policy.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    need("policy", policy, str, "a name, as zero_one_adam")
    asked = _asked(system, ranks, stride, buffer_bytes, dtype)
    asked["policy"] = {policy: settings}
    if payload is not None:
        need("payload", payload, (str, Mapping), "a format, as int8, fields, or None")
        asked["payload"] = _payload(payload)
    return _exchange(system, asked)


def _asked(
    system: System, ranks: int | None, stride: int, buffer_bytes: float, dtype: str
) -> dict[str, object]:
    """Return the fields that every question has."""
    need("system", system, System, "what scalewright.system(...) returns")
    members = need_count("ranks", system.devices if ranks is None else ranks)
    stride = need_count("stride", stride)
    need("dtype", dtype, str, "a format, as bf16")
    size = need_number("buffer_bytes", buffer_bytes, "a number of bytes")
    return {
        "ranks": members,
        "stride": stride,
        "buffer_bytes": size,
        "dtype": dtype,
    }


def _payload(payload: AnyPayload) -> dict[str, object]:
    return {"format": payload} if isinstance(payload, str) else dict(payload)


def _exchange(system: System, asked: dict[str, object]) -> Exchange:
    with named_as({r"policy\.\w+\.": ""}):
        found = json.loads(_engine.exchange(system.cluster, json_text("", asked)))
    return Exchange(system, asked, found)
