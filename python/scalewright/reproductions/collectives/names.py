"""Which collective does a word mean, however it is spelt?"""

from __future__ import annotations

COLLECTIVES = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "sendrecv": "send_receive",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
}
"""Names of the engine by those of the programs of nccl-tests."""
# letters alone are compared: of `all2all` and `a2a` no digit is left
_ALSO = {"allall": "all_to_all", "aa": "all_to_all", "bcast": "broadcast"}
_PREFIXES, _SUFFIX = ("nccl", "rccl"), "perf"


def collective_named(name: str) -> str | None:
    """Return the engine's name of a collective in any usual spelling, none where it is unknown.

    `AllReduce`, `all reduce`, `all_reduce_perf` and `ncclAllReduce` are one.
    """
    letters = _letters(name).removesuffix(_SUFFIX)
    for prefix in _PREFIXES:
        letters = letters.removeprefix(prefix)
    return {**_ALSO, **_known()}.get(letters)


def collective_in(text: str) -> str | None:
    """Return the collective that a file name speaks of, none where it speaks of none."""
    letters, known = _letters(text), _known()
    # `all_reduce` holds `reduce`: the longest name that fits is meant
    return next((known[name] for name in sorted(known, key=len)[::-1] if name in letters), None)


def _known() -> dict[str, str]:
    found: dict[str, str] = {}
    for program, engine in COLLECTIVES.items():
        found |= {_letters(program): engine, _letters(engine): engine}
    return found


def _letters(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalpha())
