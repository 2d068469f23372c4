"""What a row's words say of its nodes and of the network between them.

`V100, 4 per node, 100 Gb/s InfiniBand` names no machine of the catalog, so that the usual server of
the device stands for it. What the words say beside the device then counts before what such a
server has: how many devices share a node, and how much leaves it.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

_BITS = {"t": 1e12, "g": 1e9}
_NEAR = 0.12
"""Shares of a rate within which two figures mean the same adapters, as 25 GB/s and 200 Gb/s do."""
_MOST_DEVICES = 16
_LONGEST = 400
_CLAUSE = re.compile(r"[;,()]|\band\b|\bwith\b|\+", re.IGNORECASE)
_NETWORK = re.compile(
    r"infiniband|\bib\b|roce|rdma|ethernet|\befa\b|slingshot|omni-?path|\bopa\b|connectx|\bcx-?[5-8]"
    r"|network|\bnics?\b|\bhcas?\b|adapter|inter-?node|(?:between|across) (?:nodes|servers|hosts)"
    r"|cross-?node|[efhnx]dr\b",
    re.IGNORECASE,
)
_INSIDE = re.compile(
    r"nv-?link|nv-?switch|pcie|hbm|gddr|\bhccs\b|xgmi|infinity|memory|nvme|ssd|storage|\bcpus?\b"
    r"|intra-?node|inside",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"(?<![\w.])(?:([0-9]{1,2})\s{0,2}[x\u00d7*]\s{0,2})?([0-9]{1,4}(?:\.[0-9]{1,2})?)\s{0,2}"
    r"(?:([TtGg])(bits?/s|bps|b/s|Bps|B/s|bE)(?![\w])|([Gg])(b(?:it)?)?(?=\s{1,2}[A-Za-z]))"
)
_PORTS = re.compile(
    r"(?<![\w.])([0-9]{1,2})\s{0,2}[x\u00d7*]\s{0,2}([EFHNX]DR|[efhnx]dr)([124]00)?\b"
)
"""Adapters by their count and kind; in `4X EDR` lanes of one are counted."""
_PORT = {"fdr": 56e9, "edr": 100e9, "hdr": 200e9, "ndr": 400e9, "xdr": 800e9}
_EACH = re.compile(
    r"(?:\b(?:per|a|each|every)\s{1,2}|/\s?)(?:gpu|device|accelerator|npu|card|chip|die|gcd)\b",
    re.IGNORECASE,
)
_WHOLE = re.compile(
    r"(?:\b(?:per|a|each|every)\s{1,2}|/\s?)(?:node|server|host|machine)\b"
    r"|inter-?node|(?:between|across) (?:nodes|servers|hosts)|cross-?node",
    re.IGNORECASE,
)
_NODE = re.compile(
    r"(?<![\w.-])(?=[x\u00d7]?([0-9]{1,2})\s{0,2}[x\u00d7]?\s{0,2}((?:[\w.-]{1,24}\s{1,2}){0,4}"
    r"(?:[\w.-]{1,24}(?=\s?/))?)(?:\b(?:per|a|each|every)\s{1,2}|\s?/\s?)"
    r"(?:node|server|host|machine)\b)",
    re.IGNORECASE,
)
"""A count with up to four words between it and `per node`, at every place where one begins."""
_DEVICE = re.compile(
    r"gpu|npu|device|accelerator|card|chip|tile|gcd|\b[a-z]{1,3}[0-9]{2,4}|rtx|gaudi|ascend|tesla",
    re.IGNORECASE,
)
_ANOTHER_COUNT = re.compile(r"(?<![\w.-])[0-9]{1,2}x?\b|\bnodes?\b", re.IGNORECASE)
_NODES_OF = re.compile(
    r"\b(?:node|server|host|machine)s?\s{1,2}(?:of|x|\u00d7)\s{1,2}([0-9]{1,2})(?![\w.])",
    re.IGNORECASE,
)
_GPU_NODE = re.compile(r"(?<![\w.])([0-9]{1,2})-gpu (?:node|server|host|machine)", re.IGNORECASE)
_HEADED = re.compile(
    r"\b(?:gpu|npu|device|accelerator|card|chip)s? (?:per|a|/) ?(?:node|server|host|machine)"
    r"\s{0,2}[:=]\s{0,2}([0-9]{1,2})(?![\w.])",
    re.IGNORECASE,
)


class Fabric(NamedTuple):
    """Nodes and their network, as far as words say."""

    devices_per_node: int | None
    """Devices of one node."""
    bits_per_s: float | None
    """What leaves a node, one direction; of one device where `each` holds."""
    each: bool
    """The rate is that of one device."""
    adapters: int | None
    """Adapters of a node, where the words count them or give the rate of a single one."""
    sure: bool
    """The words say whose rate it is; else it may be that of one of several adapters."""


def fabric_in(text: str) -> Fabric:
    """Read what the hardware's words say of nodes and of the network between them.

    Args:
        text: The hardware as a row has it. A rate counts where it is in bits, or in bytes beside a
            word of networks, and not beside one of links inside a node. Two unlike rates are none.
    """
    text = text[:_LONGEST]
    rates = {found for part in _CLAUSE.split(text) if (found := _rate_in(part)) is not None}
    rate, each, adapters, sure = rates.pop() if len(rates) == 1 else (None, False, None, False)
    return Fabric(_devices_in(text), rate, each, adapters, sure)


def as_told(
    system: dict[str, Any], text: str, per_node: int | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a usual server as a row's words have it, and what to mind.

    Args:
        system: Fields of the usual server of a device.
        text: The hardware as the row has it.
        per_node: Devices of a node, as a column of its own says.
    """
    levels: list[dict[str, Any]] = system["levels"]
    own = int(system["devices_per_node"])
    plain = len(levels) == 2 and levels[0].get("devices") == own and "devices" not in levels[1]
    if not plain or levels[1]["kind"] != "fat-tree":
        return system, ()
    told = fabric_in(text)
    count = per_node or told.devices_per_node or own
    if count > _MOST_DEVICES:
        count = own
    inside, network = dict(levels[0]), dict(levels[1])
    said: list[str] = []
    if count != own:
        said.append(f"nodes of {count} devices")
        inside["devices"] = count
        if (adapters := network.get("adapters")) is not None:
            network["adapters"] = min(adapters, count)
    if told.bits_per_s is not None:
        said += _joined(network, told, count)
    if not said:
        return system, ()
    kept = [inside, network] if count > 1 else [network]
    if count == 1:
        network.pop("adapters", None)
    changed = {**system, "devices_per_node": count, "levels": kept}
    return changed, (f"{' and '.join(said)} taken, as the hardware's words say",)


def _joined(network: dict[str, Any], told: Fabric, count: int) -> list[str]:
    """Give the network the rate that is told, where it is another one; say so."""
    assert told.bits_per_s is not None
    usual = _bits(str(network["bandwidth"]))
    rate = told.bits_per_s if told.each else told.bits_per_s / count
    known = [usual, usual * count] if not told.sure else [usual]
    given = told.bits_per_s if not told.sure else rate
    if any(abs(given / one - 1.0) < _NEAR for one in known):
        return []
    network["bandwidth"] = f"{rate / 1e9:.6g} Gb/s"
    if told.adapters is not None and told.adapters < count:
        network["adapters"] = told.adapters
    else:
        network.pop("adapters", None)
    return [f"{rate * count / 1e9:g} Gb/s a node"]


def _bits(rate: str) -> float:
    number, unit = rate.split()
    return float(number) * _BITS[unit[0].casefold()] * (8.0 if unit[1] == "B" else 1.0)


def _rate_in(clause: str) -> tuple[float, bool, int | None, bool] | None:
    """Return a clause's rate, whether it is one device's, adapters, and whether that is said."""
    if _INSIDE.search(clause) and not _NETWORK.search(clause):
        return None
    each, whole = bool(_EACH.search(clause)), bool(_WHOLE.search(clause))
    if (found := _RATE.search(clause)) is not None:
        times, number, prefix, unit, bare, _ = found.groups()
        in_bytes = unit is not None and unit.startswith("B")
        if (bare or in_bytes) and not _NETWORK.search(clause):
            return None
        rate = float(number) * _BITS[(prefix or bare).casefold()] * (8.0 if in_bytes else 1.0)
    elif (found := _PORTS.search(clause)) is not None:
        times, port, own = found.groups()
        rate = float(own) * 1e9 if own else _PORT[port.casefold()]
    else:
        return None
    if rate <= 0.0 or (times is not None and int(times) == 0):
        return None
    if times is not None and not each:
        return rate * int(times), False, int(times), True
    total = rate * int(times or 1)
    return total, each, None if each or whole else 1, each or whole


def _devices_in(text: str) -> int | None:
    for found in _NODE.finditer(text):
        words = found[2].strip()
        other = _NETWORK.search(words) or _ANOTHER_COUNT.search(words)
        if not other and (not words or _DEVICE.search(words)) and int(found[1]) > 0:
            return int(found[1])
    for shape in (_NODES_OF, _GPU_NODE, _HEADED):
        if (found := shape.search(text)) is not None and int(found[1]) > 0:
            return int(found[1])
    return None
