"""What do experts that are whole models cost on SN40L and on DGX, beside what the paper prints?"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.errors import InvalidError, UnknownNameError
from scalewright.planning import collective, model, model_switching
from scalewright.planning import system as machines
from scalewright.reproductions.claims import compared
from scalewright.reproductions.placement.rows import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scalewright.planning import ModelSwitching

Result = dict[str, Any]
_EXPERT, _EXPERTS, _MANY = "llama2-7b", 150, 850
_NODE = "sn40l-node"
_PROMPT, _CONTEXT = 512, 4096
"""Tokens of a prompt, which the paper does not print, and behind which figure 10 decodes."""
_STATED: dict[str, dict[str, float]] = {
    # section VI-C: rates from the host that it takes for DGX; section VI-B: over half of HBM's rate
    # is not reached on H100, taken for A100 as well
    "dgx-a100-80gb": {"copy_bytes_per_s": 32e9, "near_bytes_per_s": 8 * 2.039e12 * 0.5},
    "dgx-h100": {"copy_bytes_per_s": 64e9, "near_bytes_per_s": 8 * 3.35e12 * 0.5},
    # section I: over 1 TB/s from DDR to HBM; section VI-B: 85% of HBM's rate
    _NODE: {"copy_bytes_per_s": 1e12, "near_bytes_per_s": 8 * 1.8e12 * 0.85},
}
_SIXTEEN = {"copy_bytes_per_s": 1.6e12, "near_bytes_per_s": 25.6e12 * 0.85}
"""Sixteen sockets, from the slides; 85% as above."""


def sn40l() -> Iterator[Result]:
    """Predict each figure from rates that the paper states and sizes of the catalog."""
    return compared("sn40l", read("sn40l"), _predicted)


def _predicted(row: Mapping[str, str]) -> tuple[float, Result]:
    kind = row["kind"]
    if kind not in _KINDS:
        message = f"kind: got '{kind}'; allowed: {', '.join(_KINDS)}"
        raise UnknownNameError(message)
    return _KINDS[kind](row)


def _switch(row: Mapping[str, str]) -> tuple[float, Result]:
    there, here = _served(row["against"]).switch_s, _served(_NODE).switch_s
    return there / here, {"there_s": there, "here_s": here}


def _overall(row: Mapping[str, str]) -> tuple[float, Result]:
    there, here = (
        _served(on, _EXPERTS, int(row["prompts"]), int(row["tokens"]))
        for on in (row["against"], _NODE)
    )
    if there.total_s is None or here.total_s is None:
        message = f"experts: got {_EXPERTS}; allowed: up to {there.node_experts}"
        raise InvalidError(message)
    return there.total_s / here.total_s, {"there": there.plain(), "here": here.plain()}


def _expert(row: Mapping[str, str]) -> tuple[float, Result]:
    there, here = (_alone(_served(on, 1, 1, int(row["tokens"]))) for on in (row["against"], _NODE))
    return there / here, {"there_s": there, "here_s": here}


def _near(row: Mapping[str, str]) -> tuple[float, Result]:
    found = _served(row["against"])
    return float(found.near_experts), found.plain()


def _node(row: Mapping[str, str]) -> tuple[float, Result]:
    found = _served(row["against"])
    return float(found.node_experts), found.plain()


def _nodes(row: Mapping[str, str]) -> tuple[float, Result]:
    found = _served(row["against"], _MANY)
    return float(found.nodes_all_near or 0), found.plain()


def _fused_decode(_: Mapping[str, str]) -> tuple[float, Result]:
    behind, then = (_fusion(_CONTEXT, tokens) for tokens in (0, 1))
    unfused, fused = (after - before for before, after in zip(behind, then, strict=True))
    return unfused / fused, {"unfused_s": unfused, "fused_s": fused}


def _fused_prefill(_: Mapping[str, str]) -> tuple[float, Result]:
    unfused, fused = _fusion(_CONTEXT, 0)
    return unfused / fused, {"unfused_s": unfused, "fused_s": fused}


def _fusion(prompt: int, tokens: int) -> tuple[float, float]:
    """Return an expert's time for a prompt on one node, unfused and fused."""
    unfused, fused = (
        _alone(_serve(_NODE, _EXPERT, prompt=prompt, tokens=tokens, fused=fused))
        for fused in (False, True)
    )
    return unfused, fused


def _rate(row: Mapping[str, str]) -> tuple[float, Result]:
    if "speculative" in row["source"]:
        message = "tokens: got several a pass, by speculation; allowed: one a pass"
        raise InvalidError(message)
    found = _serve(_NODE, row["against"], prompt=0, tokens=1, fused=True, machine=_SIXTEEN)
    return 1.0 / _alone(found), found.plain()


def _switch_time(row: Mapping[str, str]) -> tuple[float, Result]:
    found = _serve(_NODE, row["against"], prompt=0, tokens=1, fused=True, machine=_SIXTEEN)
    return 1e3 * found.switch_s, found.plain()


_KINDS: dict[str, Callable[[Mapping[str, str]], tuple[float, Result]]] = {
    "switch": _switch,
    "overall": _overall,
    "expert": _expert,
    "near": _near,
    "node": _node,
    "nodes": _nodes,
    "fused_decode": _fused_decode,
    "fused_prefill": _fused_prefill,
    "rate": _rate,
    "switch_time": _switch_time,
}


def _alone(found: ModelSwitching) -> float:
    """Return the time of one prompt by its expert.

    Raises:
        InvalidError: The expert does not fit.
    """
    if found.expert_s is None:
        message = "experts: got one that does not fit; allowed: one that near memory holds"
        raise InvalidError(message)
    return found.expert_s


@cache
def _served(on: str, experts: int = 1, prompts: int = 1, tokens: int = 1) -> ModelSwitching:
    return _serve(on, _EXPERT, experts, prompts, prompt=_PROMPT, tokens=tokens, fused=on == _NODE)


def _serve(
    on: str,
    name: str,
    experts: int = 1,
    prompts: int = 1,
    *,
    prompt: int,
    tokens: int,
    fused: bool,
    machine: Mapping[str, float] | None = None,
) -> ModelSwitching:
    """Serve experts of one kind, with a router of the same kind that reads prompts."""
    table = model(name).table
    shape = {field: table[field] for field in ("layers", "hidden", "ffn", "heads")}
    expert = {
        "parameters": float(model(name).parameters()["total"]),
        "decoder": {**shape, "fused": fused},
        "input_tokens": prompt,
    }
    devices = machines(on, 8)
    activations = float(2 * int(str(table["hidden"])))
    return model_switching(
        devices,
        experts,
        {**expert, "output_tokens": tokens},
        prompts=prompts,
        router=expert,
        collective_s=float(collective("all_reduce", activations, devices).time_s),
        machine=_STATED[on] if machine is None else machine,
    )
