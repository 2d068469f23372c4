"""Which model did a published run train, by the row's shape first and by its name else?"""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.catalog import load_model, model_spellings
from scalewright.catalog.resolving import normalised
from scalewright.errors import InvalidError, UnknownNameError
from scalewright.reproductions.adapters import adapted_parts
from scalewright.reproductions.by_size import (
    NARROWEST,
    as_wide,
    expert_width,
    is_without_tables,
    of_like_size,
    of_size,
    usual_heads,
)
from scalewright.reproductions.conventions import conventions_of
from scalewright.reproductions.misspelt import refuse_misspelt_model
from scalewright.reproductions.mixtures import (
    mixture_said,
    says_mixture,
    with_expert_width,
    with_layers,
    with_mixture,
)
from scalewright.reproductions.naming import (
    model_named,
    model_of_size,
    model_of_word,
    model_within,
    nearest_models,
    parameters_of,
    vocabulary_of,
)
from scalewright.reproductions.widths import with_widths

if TYPE_CHECKING:
    from scalewright.reproductions.reading import Row

_SHAPE = ("layers", "hidden", "heads", "kv_heads", "ffn")
_VOCAB = 51200
_LETTERS = re.compile(r"(?<![a-z])char(?:acters?)?(?:[- ]level)?(?![a-z])", re.IGNORECASE)
_OF_LETTERS = 64
"""Tokens of a model of letters: nanoGPT's of Shakespeare has 65 (data/shakespeare_char)."""
_WIDE = 4
"""Inner width over the stream's of the original transformer and the GPT family."""
_GATED = re.compile(
    r"(?:open[-_ ]?|tiny[-_ ]?)?(?:llama|qwen|mistral|internlm|olmo|smollm|baichuan)(?![a-z])",
    re.IGNORECASE,
)
"""Families whose feed-forward parts are gated and whose norms are RMS norms, whatever the size."""
_MULTIPLE = 256
"""Of which inner widths of LLaMA's kind are multiples: two thirds of four times the stream's."""
_CUT = re.compile(
    r"(.{2,80}?),? (?:(?:cut|reduced|truncated|cropped) (?:down )?to ([1-9][0-9]{0,2}) layers?"
    r"|([1-9][0-9]{0,2})[- ]layers? (?:proxy|version|variant|cut))",
    re.IGNORECASE,
)
_FEWER = re.compile(
    r"(.{2,80}?)(?:, ?| ?\()([1-9][0-9]{0,2}) layers?(?: ?\+ ?mtp)?\)?", re.IGNORECASE
)
"""A name and a count of layers, as `X, 40 layers`, of a model that has more."""
_PROXY = re.compile(
    r"(?P<model>.{2,60}?)[-_ ]\(?proxy(?: model)?\)?(?P<more>[ :,(].{0,80})?", re.IGNORECASE
)
"""A model that stands for a larger one, as `DeepSeek-V3 proxy: num_layers=4`."""
_UPCYCLED = re.compile(r"(.{2,80}?)[-_ ,]{1,2}\(?e([1-9][0-9]{0,3})t([1-9][0-9]{0,2})\)?", re.I)
"""A dense model whose feed-forward parts became so many experts, as `Llama 3-8B E8T2`."""
_GATES = re.compile(r"(?<![a-z])(?:swi|ge|re)glu(?![a-z])", re.IGNORECASE)
_OF_GATED = re.compile(r"\b(?:torchtitan|maxtext)\b", re.IGNORECASE)
"""Programs whose models have gated parts: FeedForward of torchtitan/models, and mlp_activations of
MaxText/configs/base.yml, which are silu and linear (recalled)."""
_NO_GATES = re.compile(r"(?<![a-z])(?:squared[- ]relu|relu ?(?:\^ ?2|²|squared))(?![a-z])", re.I)
"""Activations that remarks name; whose parts are gated and whose are not."""
_TIED = re.compile(
    r"(?<![a-z])(?P<not>un|not )?(?:tied[- ](?:word[- ])?(?:input[- ])?embeddings?"
    r"|tie_word_embeddings|embeddings?(?: (?:and|with) (?:the )?(?:lm[- _]?)?head)? tied)(?![a-z])",
    re.IGNORECASE,
)
"""Whether remarks say that the head reads the embedding's table."""
_CAPACITY = re.compile(
    r"(?<!no )(?:capacity[ _]factor[ =:]{1,3}(?:of )?|\bcf[ =:]{1,2})"
    r"([0-9](?:\.[0-9]{1,3})?)(?![0-9.])"
)
_TWO_KINDS = re.compile(
    r"([0-9]{1,4}) \((?:local|sliding|windowed|swa)\),? (?:and )?[0-9]{1,4} \((?:global|full)\)"
)
"""Heads of keys in layers with a window and in those without: `12 (local), 6 (global)`."""
_JOINED = re.compile(r"[0-9]\s?[bm]\b(?:[^+]{0,40}) \+ (?:[^+]{0,40})[0-9]\s?[bm]\b", re.IGNORECASE)
"""Two models of a size each, as `ViT-22B + GPT-175B`."""
_ROUTED = re.compile(r"(?<![a-z])(?:moe|mixture[- ]of[- ]experts)(?![a-z])", re.IGNORECASE)
_PAIRED = re.compile(
    r"(?<![a-z0-9])(?:m?t5|encoder[- ]?(?:and[- ])?decoder|vit)(?![a-z0-9])", re.IGNORECASE
)
"""Stacks that are no decoder alone."""
_SERVED = re.compile(r"\b(?:inference|decoding|prefill)\b", re.IGNORECASE)
_OTHER_MIXERS = re.compile(
    r"(?<![a-z])(?:gdn|(?:gated[- ]?)?delta[- ]?net|kda|mamba|rwkv|ret[- ]?net|hyena|hgrn|x?lstm"
    r"|gla|linear[- ](?:attention|transformer)|lightning[- ]attention)(?![a-z])",
    re.IGNORECASE,
)
"""Names of layers that mix positions otherwise than attention, whose widths no column tells."""
_SEES = re.compile(r"(?<![a-z])(?:vlm?|vision|multi-?modal)(?![a-z])", re.IGNORECASE)
_OWNER = re.compile(r"^(?:[\w.-]+/)+")
_TUNED = re.compile(
    r"[-_ ](?:instruct|chat|hf|it|sft|(?:un)?cased|whole[-_ ]word[-_ ]masking"
    r"|q?-?lora(?:[ ,]+(?:rank|r)[ =]?\d+)?|full(?:[-_ ](?:ft|parameters?|fine[- ]?tun(?:e|ing)))?"
    r"|(?:(?:continued|continual)[- ])?pre-?train(?:ing)?|cpt|fine[- ]?tun(?:ed?|ing)"
    r"|\+ ?(?:mtp|deepspeed|zero|fsdp)\b.{0,40}|(?:w/o|without|no) mtp)(?![\w.])",
    re.IGNORECASE,
)
"""Words of a checkpoint, or of how it is trained, that leave the shape as it is."""
_PARENTHESES = re.compile(r"\s*\((?:[^()]|\([^()]{0,40}\)){0,80}\)$")
_SIZE_BEHIND = re.compile(
    r"\((?:about |~ ?)?([0-9]{1,4}(?:\.[0-9]{1,2})?) ?([bmt])(?: param(?:eter)?s)?\)$",
    re.IGNORECASE,
)
_SIZE_SAID = re.compile(r"([0-9.]{1,7})([bmt])$", re.IGNORECASE)
_SCALES = {"m": 1e6, "b": 1e9, "t": 1e12}
_UNLIKE = 0.25
"""How far a model's parameters may be from a size behind its name that rounds or leaves parts."""
_TIMES = re.compile("(?<=[0-9])\u00d7(?=[0-9])")
_LIKE = re.compile(r"[- ](?:like|style|based)$", re.IGNORECASE)
_PREDICTS = re.compile(
    r"(?:\+|with|and|,) ?(?:1 |one )?mtp(?:_(?:num_)?layers ?= ?1)?\b", re.IGNORECASE
)
"""A module that predicts a further token, as DeepSeek-V3 has one."""
_PREDICTS_NONE = re.compile(r"(?:\bw/o|\bwithout|\bno) mtp\b", re.IGNORECASE)
_GPT: dict[str, Any] = {
    "family": "decoder",
    "position": "learned",
    "activation": "gelu",
    "norm": "layernorm",
    "tied_embeddings": True,
    "qkv_bias": True,
    "output_bias": True,
    "ffn_bias": True,
}
_LLAMA: dict[str, Any] = {
    "family": "decoder",
    "position": "rotary",
    "activation": "swiglu",
    "norm": "rmsnorm",
}


def model_of(row: Row) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the model's fields and what to mind.

    Raises:
        ScalewrightError: Neither the shape nor the name says the model, or the name joins two, or
            says of it what the fields do not have.
    """
    text = row.text("model")
    got = f"{row.named('model')}: got '{text:.60}'"
    if _JOINED.search(text):
        message = f"{got}; allowed: one model, not an encoder beside a decoder"
        raise InvalidError(message)
    if _SERVED.search(text):
        message = f"{got}; allowed: a model in training"
        raise InvalidError(message)
    model, notes = _understood(row)
    if "state_space" not in model and "source" not in model and _OTHER_MIXERS.search(text):
        allowed = "attention, or a model of the catalog that mixes positions otherwise"
        message = f"{got}, whose layers mix positions without it; allowed: {allowed}"
        raise InvalidError(message)
    if _ROUTED.search(text) and not model.get("experts") and not conventions_of(row).known:
        message = f"{got}, a mixture; allowed: its experts beside it, as '64 experts top-8'"
        raise InvalidError(message)
    if _SEES.search(text):
        notes = (*notes, f"model '{text:.60}': what reads pictures is not priced")
    return model, notes


def _understood(row: Row) -> tuple[dict[str, Any], tuple[str, ...]]:
    row, kinds = _of_most_layers(_of_proxy(with_expert_width(with_widths(with_layers(row)))))
    shape = {column: row.count(column) for column in _SHAPE}
    entry, notes = _entry(row, all(shape[column] for column in ("layers", "hidden", "heads")))
    notes = (*kinds, *notes)
    if entry is not None:
        model = _completed(_overlaid(entry, shape, row.count("vocab")), row)
        notes += _add_columns(model, row)
        # the run had as many positions as its sequences are long
        if 0 < model.get("max_positions", 0) < (length := row.count("sequence") or 1):
            model["max_positions"] = length
        model, more = with_mixture(model, row)
        return model, (*notes, *more)
    if shape["layers"] is None or shape["hidden"] is None:
        raise _unknown(row)
    if shape["heads"] is None:
        shape["heads"] = heads = usual_heads(shape["hidden"])
        notes = (*notes, f"{heads} heads taken: the row says none")
    if _PAIRED.search(row.text("model")):
        got = f"{row.named('model')}: got '{row.text('model'):.60}' beside one stack's shape"
        message = f"{got}; allowed: a decoder or an encoder, or a catalog name with both"
        raise InvalidError(message)
    if says_mixture(row):
        model, more = _mixture(row, shape)
        return _completed(model, row), (*notes, "experts as the row's text says", *more)
    model = _plain(row, shape)
    said = row.billions()
    if said is not None and not is_without_tables(model, said, _remarks(row)):
        # what is gated keeps the width that the row says
        gated = {**model, **_LLAMA, "max_positions": 0}
        if shape["ffn"] is None:
            model, wide = as_wide(model, said)
            notes = (*notes, *wide)
        kinds = not _says_gates(row)
        vocab_said = bool(row.text("vocab"))
        model, more = of_size(model, gated, said, vocab_said=vocab_said, kinds_open=kinds)
        notes = (*notes, *more)
    return _completed(model, row), notes


def _says_gates(row: Row) -> bool:
    """Say whether remarks name gated parts, or a program whose models have them unless told."""
    remarks = _remarks(row)
    if _GATES.search(remarks) is not None:
        return True
    named = f"{row.text('program')} {row.text('framework')} {row.text('paper')} {remarks}"
    return _OF_GATED.search(named) is not None and _NO_GATES.search(remarks) is None


def _of_proxy(row: Row) -> Row:
    """Take a proxy of a model for that model where columns say what it has otherwise.

    Raises:
        InvalidError: They do not.
    """
    text = row.text("model")
    if _CUT.fullmatch(text) or (found := _PROXY.fullmatch(text)) is None:
        return row
    if not row.text("layers") and not row.text("hidden"):
        got = f"{row.named('model')}: got '{text:.60}' and no shape"
        message = f"{got}; allowed: a proxy whose layers or width the row says"
        raise InvalidError(message)
    cells = {**row.cells, "model": found["model"]}
    if found["more"] and _PREDICTS.search(found["more"]):
        cells.setdefault("prediction_layers", "1")
    return replace(row, cells=cells)


def _of_most_layers(row: Row) -> tuple[Row, tuple[str, ...]]:
    """Take the keys of layers with a window where a cell tells those of two kinds of layers."""
    text = row.text("kv_heads")
    if (found := _TWO_KINDS.fullmatch(text.casefold())) is None:
        return row, ()
    note = f"{row.named('kv_heads')} '{text:.40}': {found[1]} taken, as most layers have"
    return replace(row, cells=row.cells | {"kv_heads": found[1]}), (note,)


def _add_columns(model: dict[str, Any], row: Row) -> tuple[str, ...]:
    """Add what columns and a name say beside the shape; say what the name does."""
    dense = row.count("dense_layers")
    if dense is not None and model.get("experts") is not None:
        model["experts"] = {**model["experts"], "first_dense_layers": dense}
    noted: tuple[str, ...] = ()
    if model.get("experts") is not None:
        capacity = row.number("capacity_factor") if row.text("capacity_factor") else None
        told = f"{row.text('experts').casefold()} | {_remarks(row)}"
        if capacity is None and (found := _CAPACITY.search(told)) is not None:
            capacity = float(found[1])
            noted = (f"words of the row say '{found[0]}', which is taken",)
        if capacity is not None:
            model["experts"] = {**model["experts"], "capacity_factor": capacity}
    if (modules := row.count("prediction_layers")) is not None:
        model["prediction_layers"] = modules
    elif _PREDICTS.search(row.text("model")) and not model.get("prediction_layers"):
        model["prediction_layers"] = 1
        return (*noted, "one module for a further token, as the model's name says")
    elif _PREDICTS_NONE.search(row.text("model")) and model.pop("prediction_layers", 0):
        return (*noted, "no module for a further token, as the model's name says")
    return noted


def _remarks(row: Row) -> str:
    return f"{row.text('table')} | {row.text('source')}".casefold()


def _completed(model: dict[str, Any], row: Row) -> dict[str, Any]:
    """Add what any model may have: padded rows of the embedding table, adapters."""
    if (rows := row.count("padded_vocab")) is not None:
        model = {**model, "padded_vocab": rows}
    if rank := row.count("lora"):
        gated = model.get("activation") in {"swiglu", "geglu"}
        targets = [name for name in adapted_parts(row) if gated or name != "gate"]
        model = {**model, "lora": {"rank": rank, "targets": targets}}
    return model


def _named(text: str) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    text = _TIMES.sub("x", text)
    if not text:
        return None, ()
    known = _spellings().get(normalised(text))
    if known is not None:
        name, note = known
        if name is None:
            message = f"model: '{text}' is not in the catalog: {note}"
            raise UnknownNameError(message)
        return load_model(name), (note,) if note else ()
    if text.endswith((".json", ".toml")):
        return None, ()
    # the hub's names have their owner in front
    return _of_catalog(_OWNER.sub("", text))


def _of_catalog(text: str) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return the model of the catalog that a name means with or without what stands behind it."""
    bare = _PARENTHESES.sub("", text)
    core = _PARENTHESES.sub("", _TUNED.sub("", bare).rstrip(" ,;-")).strip()
    sized = _sized(text, bare)
    for spelling in dict.fromkeys((text, *sized, bare, _TUNED.sub("", bare), core)):
        try:
            entry = load_model(spelling)
        except UnknownNameError:
            continue
        if sized and spelling != text and _of_another_size(entry, sized[0]):
            continue
        return entry, () if spelling == text else (f"model '{text}' taken as {entry['name']}",)
    if (entry := _in_parentheses(text)) is not None:
        return entry, (f"model '{text}' taken as {entry['name']}",)
    for spelling in dict.fromkeys((text, *sized, bare, core)):
        if (meant := model_named(spelling)) is not None:
            return load_model(meant), (f"model '{text}' taken as {meant}",)
    return None, ()


def _sized(text: str, bare: str) -> tuple[str, ...]:
    """Return a name with the size that stands in parentheses behind it, as `GPT-2 (774M)`."""
    found = _SIZE_BEHIND.search(text)
    return () if found is None else (f"{bare} {found[1]}{found[2]}",)


def _of_another_size(entry: dict[str, Any], sized: str) -> bool:
    """Say whether a model has other parameters than a name says; of mixtures, which are unsure."""
    found = _SIZE_SAID.search(sized)
    if found is None or entry.get("experts"):
        return False
    said = float(found[1]) * _SCALES[found[2].casefold()]
    return abs(parameters_of(str(entry["name"])) / said - 1.0) > _UNLIKE


def _in_parentheses(text: str) -> dict[str, Any] | None:
    """Return the model that a remark names, as `deepseek2-16b (DeepSeek-V2-Lite)`, if one is."""
    if len(remarks := _PARENTHESES.findall(text)) != 1:
        return None
    try:
        return load_model(_LIKE.sub("", remarks[0].strip(" ()")))
    except UnknownNameError:
        return None


def _cut(text: str) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return a model of which a text says that layers were left out, as `X, cut to 4 layers`."""
    cut = _CUT.fullmatch(text)
    if (found := cut or _FEWER.fullmatch(text)) is None:
        return None, ()
    entry, notes = _named(found[1])
    if entry is None:
        return None, ()
    count = int(next(filter(None, found.groups()[1:])))
    if cut is None and count >= entry["layers"]:
        return None, ()
    # a mixture keeps its leading dense layers as far as they go
    experts = entry.get("experts")
    if experts and experts.get("first_dense_layers", 0) >= count:
        return None, ()
    return {**entry, "layers": count}, (*notes, f"cut to {count} layers, as its name says")


def _named_or_changed(text: str) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return the model of a name, or of one that says what was left out or made of it."""
    # a remark on layers is none that may be passed over
    if _FEWER.fullmatch(text) is not None and (fewer := _cut(text))[0] is not None:
        return fewer
    entry, notes = _named(text)
    return (entry, notes) if entry is not None else _changed(text)


def _changed(text: str) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return a model of which a text says what was made of it."""
    entry, notes = _cut(text)
    return (entry, notes) if entry is not None else _upcycled(text)


def _upcycled(text: str) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return a dense model with experts as wide as its own parts (Komatsuzaki et al. 2022)."""
    if (found := _UPCYCLED.fullmatch(text)) is None:
        return None, ()
    entry, notes = _named(found[1])
    if entry is None or entry.get("experts") or int(found[3]) > int(found[2]):
        return None, ()
    experts = {"experts": int(found[2]), "top_k": int(found[3]), "expert_ffn": entry["ffn"]}
    told = f"{found[2]} experts as wide as its parts, {found[3]} a token, as its name says"
    return {**entry, "experts": experts}, (*notes, told)


def _entry(row: Row, shaped: bool) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return the catalog's entry that is meant, if one is, and what to mind."""
    try:
        entry, notes = _named_or_changed(row.text("model"))
        if entry is None and not shaped and (size := row.text("size")):
            # a family and a size in columns of their own
            entry, notes = _named(f"{row.text('model')} {size}".strip())
        if entry is None and not shaped and row.text("model") and row.billions():
            entry, notes = _of_parameters(row)
        if entry is not None and shaped and _is_other_mixture(entry, row):
            meant = entry.get("name", "a model")
            return None, (f"{meant} is dense: the mixture of the row's shape taken",)
    except UnknownNameError as unknown:
        # a shape that the row prints tells most of a model that no entry can hold
        if not shaped:
            raise
        return None, (f"{unknown}; priced by the row's shape",)
    if entry is not None or shaped:
        return entry, notes
    text = row.text("model")
    if not row.text("parameters") and not row.text("size"):
        refuse_misspelt_model(text)
    if (meant := model_within(_OWNER.sub("", text))) is not None:
        return load_model(meant), (f"model '{text}': shape of {meant} taken, which its name holds",)
    if (meant := model_of_word(_OWNER.sub("", text))) is not None:
        return load_model(meant), (f"model '{text}' taken as {meant}, with which it begins",)
    return _of_size(row)


def _is_other_mixture(entry: dict[str, Any], row: Row) -> bool:
    """Say whether a row's name and shape are of a mixture, and those of an entry are not."""
    routed = _ROUTED.search(row.text("model").replace("_", " ")) is not None
    return routed and says_mixture(row) and entry.get("experts") is None


def _of_parameters(row: Row) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return the entry that a family's name means with the row's parameters as its size."""
    said = row.billions() or 0.0
    for size in dict.fromkeys((f"{said:g}B", f"{said:.0f}B")):
        entry, notes = _named(f"{row.text('model')} {size}")
        if entry is not None:
            return entry, notes
    return None, ()


def _of_size(row: Row) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Take the shape of a family's model that has as many parameters as the row says."""
    text = row.text("model")
    meant = model_of_size(text, row.number("parameters") if row.text("parameters") else None)
    if meant is None:
        return None, ()
    return load_model(meant), (f"model '{text}': shape of {meant} taken, of a like size",)


def _overlaid(
    entry: dict[str, Any], shape: dict[str, int | None], vocab: int | None
) -> dict[str, Any]:
    """Lay the row's own shape over the catalog's."""
    model = dict(entry)
    experts: dict[str, Any] | None = model.get("experts")
    hidden = shape["hidden"]
    if experts is None and all(shape[column] for column in _SHAPE[:3]) and shape["ffn"] is None:
        # another model's whole shape: the name says its kind, and its widths follow the stream's
        own = Fraction(entry["ffn"], entry["hidden"]) * (hidden or 1)
        shape = {**shape, "ffn": round(own)}
        if entry.get("kv_heads") in {None, entry["heads"]} and shape["kv_heads"] is None:
            shape["kv_heads"] = None if model.pop("kv_heads", None) is None else shape["heads"]
    for column, value in shape.items():
        if value is None or value == model.get(column):
            continue
        if column == "ffn" and experts is not None:
            # tables print the width of one expert here
            if value != experts.get("expert_ffn"):
                model["experts"] = {**experts, "expert_ffn": value}
            continue
        model[column] = value
    own = (model.get("vocab"), model.get("padded_vocab"))
    if vocab is not None and vocab not in own:
        model.pop("padded_vocab", None)
        model["vocab"] = vocab
    if experts is not None and experts.get("first_dense_layers", 0) >= model["layers"]:
        model["experts"] = {**model["experts"], "first_dense_layers": model["layers"] - 1}
    return model


def _plain(row: Row, shape: dict[str, int | None], *, gated: bool | None = None) -> dict[str, Any]:
    """Build a model that the catalog lacks: gated where the shape says so, else of the GPT kind."""
    hidden, heads = shape["hidden"] or 1, shape["heads"] or 1
    ffn, key_values = shape["ffn"], shape["kv_heads"]
    grouped = key_values is not None and key_values != heads
    name = row.text("model") or (
        f"GPT {row.text('parameters')}B" if row.text("parameters") else "GPT"
    )
    gates = _says_gates(row)
    named = _GATED.match(name) is not None or gates
    if gated is None:
        no_gates = _NO_GATES.search(_remarks(row)) is not None and not gates
        wide = ffn is not None and ffn != _WIDE * hidden
        gated = not no_gates and (grouped or named or wide)
    if named and ffn is None:
        ffn = -(-2 * _WIDE * hidden // (3 * _MULTIPLE)) * _MULTIPLE
    fields = {"layers": shape["layers"], "hidden": hidden, "heads": heads, "kv_heads": key_values}
    kept = {key: value for key, value in fields.items() if value is not None}
    positions = {} if gated else {"max_positions": row.count("sequence") or 1}
    usual = _OF_LETTERS if _LETTERS.search(name) else _VOCAB
    if _GATED.match(name) is not None:
        usual = vocabulary_of(name) or usual
    vocab = row.count("vocab") or usual
    extra = {"ffn": ffn or _WIDE * hidden, "vocab": vocab}
    if (tied := _TIED.search(_remarks(row))) is not None:
        extra["tied_embeddings"] = tied["not"] is None
    return {**(_LLAMA if gated else _GPT), "name": name, **kept, **extra, **positions}


def _mixture(row: Row, shape: dict[str, int | None]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Build a mixture from text as `64 routed + 2 shared, top-6`, and say what was taken.

    `128 experts top-1 every other layer` is one of the GPT kind. Where the row says no width of
    experts, its parameters tell it, or else experts of the GPT kind are as wide as that kind's
    feed-forward parts.
    """
    said = mixture_said(row)
    every = said.every
    width = row.count("expert_ffn") or shape["ffn"]
    shape = {**shape, "ffn": shape["ffn"] or width}
    if said.experts is None or said.top_k is None:
        raise _no_mixture(row)
    # a width that is the stream's presses nothing
    latent = said.latent if said.latent != shape["hidden"] else None
    told = {
        "experts": said.experts,
        "top_k": said.top_k,
        "every": every,
        "first_dense_layers": said.dense,
        "latent_width": latent,
    }
    mixture = {key: value for key, value in told.items() if value is not None}

    def of_width(each: int, *, gates: bool | None = None) -> dict[str, Any]:
        fields = {**mixture, "expert_ffn": each}
        if said.shared_ffn is not None or said.shared is not None:
            fields["shared_ffn"] = said.shared_ffn or (said.shared or 0) * each
        usual = True if every in {None, 1} else None
        return {**_plain(row, shape, gated=usual if gates is None else gates), "experts": fields}

    billions = row.billions()
    if width is not None and (billions is None or _says_gates(row)):
        return of_width(width), ()
    if width is not None and billions is not None:
        return of_like_size(of_width(width), of_width(width, gates=False), billions)
    if billions is not None:
        width = expert_width(of_width(NARROWEST), billions)
        if width is not None:
            return of_width(width), (f"experts {width:,} wide taken, which make its parameters",)
    if every is None:
        raise _no_mixture(row)
    return of_width(_WIDE * (shape["hidden"] or 1)), ()


def _no_mixture(row: Row) -> InvalidError:
    counts = f"{row.text('expert_count')} experts"
    chosen = f" top-{row.text('top_k')}" if row.text("top_k") else ""
    text = row.text("experts") or f"{counts}{chosen}"
    width = row.text("expert_ffn") or row.text("ffn")
    message = (
        f"moe: got '{text:.60}' and ffn '{width:.20}'; "
        "allowed: text as '64 experts top-8' beside an expert's width"
    )
    return InvalidError(message)


def _unknown(row: Row) -> UnknownNameError:
    lacking = ", ".join(c for c in ("layers", "hidden", "heads") if not row.text(c))
    name = row.text("model")
    said = f"unknown name '{name}'" if name else "got nothing"
    close = nearest_models(name)
    hint = f"; nearest: {', '.join(close)}" if close else ""
    return UnknownNameError(f"model: {said}, and the row lacks its {lacking}{hint}")


@cache
def _spellings() -> dict[str, tuple[str | None, str]]:
    return {normalised(s.text): (s.model, s.note) for s in model_spellings().values()}
