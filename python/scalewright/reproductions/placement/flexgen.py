"""How many tokens a second do blocks of one T4 generate, beside what FlexGen measured?"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.catalog.layers import built_in_root
from scalewright.catalog.toml_file import read_table
from scalewright.errors import InvalidError, UnknownNameError
from scalewright.planning import serving_blocks, serving_problem
from scalewright.reproductions.claims import compared
from scalewright.reproductions.placement.rows import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scalewright.planning import ServingBlock

Result = dict[str, Any]
_MACHINE = "gcp-t4"
_FITTED = built_in_root() / "published" / "placement" / "flexgen.toml"
"""The constants of FlexGen's cost model."""


def flexgen() -> Iterator[Result]:
    """Predict each throughput of a policy that was run, and of the best one."""
    return compared("flexgen", read("flexgen"), _predicted)


def _predicted(row: Mapping[str, str]) -> tuple[float, Result]:
    kind = row["kind"]
    if kind not in _KINDS:
        message = f"kind: got '{kind}'; allowed: {', '.join(_KINDS)}"
        raise UnknownNameError(message)
    block = _KINDS[kind](row)
    return block.tokens_per_s, {
        name: value for name, value in block.plain().items() if name != "problem"
    }


def _fitted(row: Mapping[str, str]) -> ServingBlock:
    return _priced(row, _own(row["model"], int(row["prompt"]), int(row["generated"])))


def _catalog(row: Mapping[str, str]) -> ServingBlock:
    return _priced(row, _posed(row["model"], int(row["prompt"]), int(row["generated"])))


def _host(row: Mapping[str, str]) -> ServingBlock:
    posed = _posed(row["model"], int(row["prompt"]), int(row["generated"]))
    fitted = {"host_attention_bytes_per_s": read_table(_FITTED)["compute"]["host_attention"]}
    return _priced(row, {**posed, "compute": {**posed["compute"], **fitted}})


def _best(row: Mapping[str, str]) -> ServingBlock:
    found = _own(row["model"], int(row["prompt"]), int(row["generated"]))
    return serving_blocks(problem=found)


def _compressed(_: Mapping[str, str]) -> ServingBlock:
    message = "weights, cache: got groups of 4 bits; allowed: formats that kernels read as they are"
    raise InvalidError(message)


_KINDS: dict[str, Callable[[Mapping[str, str]], ServingBlock]] = {
    "fitted": _fitted,
    "catalog": _catalog,
    "host": _host,
    "best": _best,
    "compressed": _compressed,
}


def _priced(row: Mapping[str, str], problem: Mapping[str, Any]) -> ServingBlock:
    homes = [home["name"] for home in problem["homes"]]
    policy: dict[str, Any] = {"batch": int(row["batch"]), "batches": int(row["batches"])}
    for field in ("weights", "cache", "states"):
        shares = [float(share) for share in row[field].split()]
        held = zip(homes, shares, strict=True)
        policy[field] = {home: share for home, share in held if share}
    return serving_blocks(problem=problem, policy=policy)


@cache
def _posed(name: str, prompt: int, generated: int) -> dict[str, Any]:
    """Return the problem on the machine of the catalog, where the host attends.

    FlexGen keeps the scores of a batch's prompts in memory.
    """
    return serving_problem(
        name,
        _MACHINE,
        prompt=prompt,
        generated=generated,
        attention="host",
        flash_attention=False,
    )


@cache
def _own(name: str, prompt: int, generated: int) -> dict[str, Any]:
    """Return the problem as FlexGen's cost model has it: its rates, and nothing but the layers."""
    problem = _posed(name, prompt, generated)
    bare = {**problem["layer"], "query_bytes_per_token": 0.0, "head_flops_per_sequence": 0.0}
    return {**problem, **read_table(_FITTED), "layer": bare, "resident_bytes": 0.0}
