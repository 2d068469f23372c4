"""Which whole number does a cell say, whatever words stand around it?"""

from __future__ import annotations

import re

_NAMES: dict[str, frozenset[str]] = {
    "micro_batch": frozenset({"bs", "b", "mbs", "lbs", "pdb", "batch", "batch size"}),
    "global_batch": frozenset({"gbs", "bs", "batch", "batch size"}),
    "layers": frozenset({"l", "layers", "n_layer"}),
    "hidden": frozenset({"h", "d", "dim", "emb", "d_model", "n_embd"}),
    "heads": frozenset({"a", "heads", "n_head"}),
    "sequence": frozenset({"seq", "s", "ctx", "seq len", "seq length"}),
    "vocab": frozenset({"v", "vocab"}),
}
"""What the count of a column may be called before its number; PDB is MaxText's batch a device."""
_NAMED = re.compile(r"([a-z][a-z_ -]{0,20}?) ?[=:]? ?([~\u2248]?[0-9].*)", re.IGNORECASE)
_EITHER = re.compile(r"(?:\u03bcb|\u00b5b|ub|n_?mb|micro-?batches) ?[=:]? ?[0-9]+", re.IGNORECASE)
"""A size of micro-batches, or how many there are."""
_UNITS: dict[str, str] = {
    "layers": r"(?:hidden |transformer |decoder |encoder )?(?:layers?|blocks?)|l",
    "heads": r"(?:(?:q|query|attention)[- ])?heads?|q",
    "kv_heads": r"(?:(?:kv|key[- ]?value|key)[- ])?(?:heads?|groups?)|kv",
    "vocab": r"(?:tokens|entries|words|rows)",
    "hidden": r"(?:dims?|dimensions|columns)",
    "micro_batch": r"(?:(?:sequences?|samples?|seqs?) )?(?:(?:/ ?|per |a |an )"
    r"(?:gpu|device|dev|chip|rank|replica))|sequences?|samples?|seqs?",
}
"""What the numbers of a column count, which may stand behind them."""
_BEHIND = re.compile(r"([~\u2248]?[0-9][0-9,_]{0,12}[kK]?) ?(?P<unit>[a-z/][a-z/ -]{0,30})")
_REMARKED = re.compile(
    r"([0-9][0-9,_]{0,12}[kK]?)\s*"
    r"\((?!max|up)(?:[^()0-9]|(?<=[a-zA-Z-])[0-9]|[0-9]:[0-9]){1,40}\)"
)
"""A number and a remark without another behind it, as `8 (4:1)` and `50,304 (GPT-2 tokenizer)`."""
_PRODUCT = re.compile(r"([0-9][0-9,_]{0,12}) ?= ?([0-9]{1,7}) ?[x\u00d7*] ?([0-9]{1,7})")
_THOUSANDS = re.compile(r"[0-9]{1,4} ?k", re.IGNORECASE)
_LONGEST = re.compile(
    r"(?:max(?:imum|imal)?|up to|at most|\u6700\u5927|\u6700\u957f)[^0-9]{0,20}[0-9]"
    r"|[\u2264<]=?\s?[0-9]",
    re.IGNORECASE,
)
"""A length that no sequence exceeds, which most may be far from."""


def bare(column: str, text: str) -> str:
    """Return the number of a cell without the words around it that its column expects.

    `bs=4/gpu`, `PDB 8`, `24 hidden layers`, `50,304 = 393x128`; other text stays, and so does a
    product that is another number.
    """
    named = _NAMED.fullmatch(text)
    if named is not None and named[1].casefold().strip() in _NAMES.get(column, ()):
        text = named[2]
    behind = _BEHIND.fullmatch(text.casefold())
    if behind is not None and column in _UNITS and re.fullmatch(_UNITS[column], behind["unit"]):
        text = behind[1]
    if (product := _PRODUCT.fullmatch(text)) is not None:
        whole = product[1].replace(",", "").replace("_", "")
        if int(whole) == int(product[2]) * int(product[3]):
            text = whole
    remarked = _REMARKED.fullmatch(text)
    return remarked[1] if remarked is not None else text


def unclear(column: str, text: str) -> str:
    """Say why a cell tells no one number though it has one; empty where nothing is known."""
    if column == "micro_batch" and _EITHER.fullmatch(text):
        return ", a size or a number of micro-batches"
    if column == "global_batch" and _THOUSANDS.fullmatch(text):
        return ", thousands of 1,000 or 1,024, of sequences or tokens"
    if column == "sequence" and _LONGEST.search(text):
        return ", a length that no sequence exceeds"
    return ""
