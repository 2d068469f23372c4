"""What words say of a machine's nodes and of the network between them."""

from __future__ import annotations

import re
from typing import NamedTuple

_LONGEST = 400
_BITS = {"t": 1e12, "g": 1e9}
_NUMBERS = {
    "one": "1",
    "two": "2",
    "three": "3",
    "four": "4",
    "five": "5",
    "six": "6",
    "seven": "7",
    "eight": "8",
    "nine": "9",
    "ten": "10",
    "twelve": "12",
    "sixteen": "16",
}
_NUMBER = re.compile(r"\b(" + "|".join(_NUMBERS) + r")\b", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_SPLIT = re.compile(
    r"([;,()|&+]|\band\b|\bwith\b|\s/\s|(?<=[A-Za-z])/(?=[0-9])|(?<=[a-z])/(?=[A-Z])(?!GPU|NPU))",
)
_INHERITS = {"(", "with"}
"""What follows these speaks of what stood before, unless it says of what."""
_NETWORK = re.compile(
    r"infiniband|\bib\b|roce|rdma|ethernet|\befa\b|slingshot|omni-?path|\bopa\b|connectx"
    r"|\bcx-?[5-8]\b|network|\bnics?\b|\bhcas?\b|adapters?\b|inter-?node|cross-?node"
    r"|(?:between|across) (?:nodes|servers|hosts)|\b[efhnx]dr(?:[124]00)?\b|[0-9]gb?e\b",
    re.IGNORECASE,
)
_INSIDE = re.compile(
    r"nv-?link(?:[ -]switch)?(?: (?:network|system|domain|fabric))?|nv-?switch|pcie|hbm|gddr"
    r"|\bhccs\b|xgmi|infinity|memory|\bcpus?\b",
    re.IGNORECASE,
)
_NEITHER = re.compile(
    r"storage|file ?system|lustre|\bnfs\b|weka|nvme|\bssds?\b|\bsata\b|\bsas\b|manag|front-?end"
    r"|\bswitch(?:es)?\b|bisection|spine|effective|\bdisks?\b|intra-?node|in-?server|scale-?up",
    re.IGNORECASE,
)
_PORT = {"fdr": 56e9, "edr": 100e9, "hdr": 200e9, "ndr": 400e9, "xdr": 800e9}
_RATE = re.compile(
    r"(?<![\w.])(?:(?P<times>[0-9]{1,2})\s{0,2}[x\u00d7*]\s{0,2})?(?:"
    r"(?P<number>[0-9]{1,4}(?:\.[0-9]{1,2})?)\s{0,2}"
    r"(?:(?P<prefix>[TtGg])(?P<unit>bits?/s|bps|b/s|Bps|B/s|b?E)(?!\w)"
    r"|(?P<bare>[Gg])(?:b(?:it)?)?"
    r"(?=[ -](?i:infiniband|ib\b|roce|rdma|eth|nic|[efhn]dr|efa|opa|cx|connectx)))"
    r"|(?P<port>[EFHNX]DR|[efhnx]dr)(?P<own>[124]00)?(?![\w]))"
    r"(?:\s?[x\u00d7*]\s?(?P<after>[0-9]{1,2})(?![\w.]))?",
)
"""A rate with its number of adapters, or adapters by their kind; in `4X EDR` lanes are counted."""
_USUAL_RATES = (1, 10, 25, 40, 50, 56, 100, 200, 400, 800, 1600, 3200, 6400)
"""What networks have in Gb/s; other rates need a word that says so."""
_OF_A_DEVICE = re.compile(r"[A-Za-z]{1,3}[0-9]{2,4}[A-Za-z]{0,4}[ -]?$")
"""What stands before the size of a device's memory, as in `A100 80G RoCE`."""
_MANY = re.compile(
    r"(?<![\w.])([0-9]{1,2})(?![0-9.])\s{0,2}[x\u00d7*]?\s{0,2}(?:(?!per\b)[\w/-]{1,16}\s){0,3}?"
    r"(?:nics?|hcas?|adapters?|ports?|rails?)\b",
    re.IGNORECASE,
)
_ONE_EACH = re.compile(r"\b1 (?:\w{1,12} )?(?:per|for each|a) (?:gpu|device|npu)", re.IGNORECASE)
_OF_EACH = re.compile(
    r"(?:\b(?:per|a|every)\s{1,2}|/\s?)(?:nic|port|adapter|hca|rail|link)\b|\beach\b"
    r"|\b(?:nics|hcas|adapters|ports|rails) (?:of|at)\b",
    re.IGNORECASE,
)
_EACH = re.compile(
    r"(?:\b(?:per|a|each|every)[\s-]{1,2}|/\s?)"
    r"(?:gpu|device|accelerator|npu|card|chip|die|gcd|[avhb][0-9]{3})\b",
    re.IGNORECASE,
)
_WHOLE = re.compile(
    r"(?:\b(?:per|a|each|every)\s{1,2}|/\s?)(?:node|server|host|machine)\b", re.IGNORECASE
)
_BOTH_WAYS = re.compile(r"bi-?directional|both directions", re.IGNORECASE)
_SCALE_UP_PORTS = 16
"""Ports of a device from which on most join it to those of its own server, as Gaudi's."""
_NODE = re.compile(
    r"(?<![\w.-])(?=([x\u00d7]?([0-9]{1,2})(?!\s?[GT]i?B)\s{0,2}[x\u00d7]?\s{0,2}"
    r"((?:[\w.-]{1,24}\s{1,2}){0,4}(?:[\w.-]{1,24}(?=\s?/))?)"
    r"(?:\b(?:per|a|each|every)\s{1,2}|\s?/\s?)(?:node|server|host|machine)\b))",
    re.IGNORECASE,
)
"""A count with up to four words between it and `per node`, at every place where one begins."""
_DEVICE = re.compile(
    r"gpu|npu|device|accelerator|card|chip|tile|gcd|\b[a-z]{1,3}[0-9]{2,4}|rtx|gaudi|ascend|tesla",
    re.IGNORECASE,
)
_NO_DEVICE = re.compile(
    r"mellanox|bluefield|\bdpus?\b|trays?\b|socket|core|epyc|xeon|\bnodes?\b|(?<![\w.-])[0-9]{1,2}x?\b",
    re.IGNORECASE,
)
_AFTER_COUNT = (
    r"(?=\s{0,2}(?:$|[,;.)/&+|]|and\b|with\b|on\b|over\b|connected|joined|(?:[\w.-]{1,16}\s)?"
    r"(?:gpu|npu|device|accelerator|chip|[avhbpl]h?[0-9]{2,4}|gb[0-9]{3}|mi[0-9]{2,3}|rtx|gaudi)))"
)
_NODES_OF = re.compile(
    r"\b(?:node|server|host|machine)s?\s{1,2}(?:of|with|x|\u00d7)\s{1,2}([0-9]{1,2})(?![\w.])"
    + _AFTER_COUNT,
    re.IGNORECASE,
)
_GPU_NODE = re.compile(r"(?<![\w.])([0-9]{1,2})-gpu (?:node|server|host|machine)", re.IGNORECASE)
_HEADED = re.compile(
    r"\b(?:gpu|npu|device|accelerator|card|chip)s? (?:per|a|/) ?(?:node|server|host|machine)"
    r"\s{0,2}[:=]\s{0,2}([0-9]{1,2})(?![\w.])",
    re.IGNORECASE,
)


class Rate(NamedTuple):
    """A rate between nodes, one direction."""

    bits_per_s: float
    of_device: bool
    """It is that of one device; else of a node, or of an adapter where that is not `sure`."""
    adapters: int | None
    """Adapters of a node, where the words count them."""
    sure: bool
    """The words say whose rate it is."""


class Fabric(NamedTuple):
    """Nodes and their network, as far as words say."""

    devices_per_node: int | None
    rate: Rate | None


def fabric_in(text: str) -> Fabric:
    """Read what the hardware's words say of nodes and of the network between them.

    Args:
        text: The hardware as a row has it. A rate is that of what the nearest words name: it
            counts beside words of networks, and in bits where none stand near; not beside those of
            links inside a node, of storage or of switches. Two unlike rates are none.
    """
    text = _THOUSANDS.sub("", text[:_LONGEST])
    text = _NUMBER.sub(lambda found: _NUMBERS[found[1].casefold()], text)
    devices, rest = _devices_in(text)
    many = {int(found[1]) for found in _MANY.finditer(rest)}
    adapters = many.pop() if len(many) == 1 else None
    rates: set[Rate] = set()
    pieces = [",", *_SPLIT.split(rest)]
    before = ""
    for mark, clause in zip(pieces[::2], pieces[1::2], strict=True):
        named = _kind(clause, None)
        kind = before if not named and mark.casefold() in _INHERITS else named
        rates.update(_rates_in(clause, kind, adapters))
        before = kind
    return Fabric(devices, rates.pop() if len(rates) == 1 else None)


def _kind(clause: str, at: int | None) -> str:
    """Name what words of a clause speak of: those nearest to a place, or the first."""
    nearest, kind = len(clause) + 1, ""
    inside = list(_INSIDE.finditer(clause))
    for name, every in (
        ("inside", inside),
        ("neither", list(_NEITHER.finditer(clause))),
        ("network", list(_NETWORK.finditer(clause))),
    ):
        for found in every:
            within = name != "inside" and any(
                other.start() <= found.start() < other.end() for other in inside
            )
            start, end = found.span()
            away = start if at is None else max(start - at, at - end, 0)
            if not within and away < nearest:
                nearest, kind = away, name
    return "neither" if kind == "network" and _NEITHER.search(clause) else kind


def _rates_in(clause: str, before: str, adapters: int | None) -> list[Rate]:
    """Return a clause's rates between nodes."""
    each, whole = _EACH.search(clause) is not None, _WHOLE.search(clause) is not None
    halved = 0.5 if _BOTH_WAYS.search(clause) else 1.0
    rates: list[Rate] = []
    for found in _RATE.finditer(clause):
        kind = _kind(clause, found.start()) or before
        unit, bare = found["unit"] or "", found["bare"]
        in_bytes = unit.startswith("B")
        if kind in ("inside", "neither") or (in_bytes and kind != "network"):
            continue
        if bare and _OF_A_DEVICE.search(clause[: found.start()]):
            continue
        if found["port"]:
            if not found["times"]:
                continue
            rate = float(found["own"]) * 1e9 if found["own"] else _PORT[found["port"].casefold()]
        else:
            scale = _BITS[(found["prefix"] or bare).casefold()] * (8.0 if in_bytes else 1.0)
            rate = float(found["number"]) * scale
        if not kind and rate / 1e9 not in _USUAL_RATES:
            continue
        rate *= halved
        said = found["times"] or found["after"]
        times = int(said) if said else None
        if times is None and (_OF_EACH.search(clause) or _counted(clause, found.start())):
            # `8 adapters of 400 Gb/s`, `8 400 Gb/s adapters`, `8 adapters x 400 Gb/s`
            times = adapters
        if rate <= 0.0 or times == 0 or (times or 0) >= _SCALE_UP_PORTS:
            continue
        if times is not None and (not each or _ONE_EACH.search(clause)):
            rates.append(Rate(rate * times, of_device=False, adapters=times, sure=True))
        else:
            of_adapter = _OF_EACH.search(clause) is not None
            sure = (each or whole) and not of_adapter
            rates.append(Rate(rate * (times or 1), of_device=each, adapters=None, sure=sure))
    return rates


def _counted(clause: str, at: int) -> bool:
    """Say whether a count or a sign of multiplication stands right before a rate."""
    return re.search(r"(?:(?<![\w.])[0-9]{1,2}|[x\u00d7*])\s$", clause[:at]) is not None


def _devices_in(text: str) -> tuple[int | None, str]:
    """Return a node's devices and the text without what said so."""
    for found in _NODE.finditer(text):
        words = found[3].strip()
        other = _NETWORK.search(words) or _INSIDE.search(words) or _NO_DEVICE.search(words)
        if not other and (not words or _DEVICE.search(words)) and int(found[2]) > 0:
            start = found.start()
            return int(found[2]), text[:start] + "," + text[start + len(found[1]) :]
    for shape in (_NODES_OF, _GPU_NODE, _HEADED):
        if (found := shape.search(text)) is not None and int(found[1]) > 0:
            return int(found[1]), text[: found.start()] + "," + text[found.end() :]
    return None, text
