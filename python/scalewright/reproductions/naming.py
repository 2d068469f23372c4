"""Which model of the catalog does a name mean that no table of spellings has?"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from functools import cache

from scalewright._engine import Workload
from scalewright.catalog import load_model, model_spellings, names
from scalewright.catalog.resolving import normalised

_WORDS = re.compile(
    r"[0-9]{1,4}x[0-9]{1,4}(?:\.[0-9]{1,3})?b"  # 8x7b
    r"|(?<![a-z])a?[0-9]{1,5}(?:\.[0-9]{1,3})?[bmt](?![a-z])"  # 70b, 350m, a3b
    r"|[0-9]{1,5}(?:\.[0-9]{1,3})?"
    r"|[a-z]{1,40}"
)
_RELEASE = re.compile(
    r"v0\.[0-9]{1,2}|(?<![0-9a-z.])[0-9]{1,4}k(?![a-z])"
    r"|(?<=[a-z0-9][- ])(?:2[3-9](?:0[1-9]|1[0-2])|0[1-9][0-3][0-9])(?![0-9a-z.-])"
)
"""Releases of a checkpoint, as Mistral's, are no version of the shape, nor are its positions.

Neither is the month of one, as in `Qwen3-4B-Instruct-2507`, nor its day, as in `V3-0324`.
"""
_SIZE = re.compile(r"([0-9.]{1,9})([bmt])")
_SCALE = {"m": 1e6, "b": 1e9, "t": 1e12}
_IGNORED = frozenset(
    {
        "v",
        "ai",
        "base",
        "chat",
        "decoder",
        "dense",
        "facebook",
        "hf",
        "instruct",
        "meta",
        "model",
        "moe",
        "nvidia",
        "parameter",
        "parameters",
        "params",
        "pretrain",
        "pretraining",
        "sft",
        "thinking",
        "training",
    }
)
_PUBLISHERS = frozenset(
    {
        *("facebook", "face", "google", "hf", "hugging", "huggingface", "jax", "meta", "microsoft"),
        *("mlperf", "nvidia", "openai", "original", "pytorch", "tensorflow", "tf", "torch"),
    }
)
"""Who publishes or ports models, where it stands in front of their names."""
_CLOSE = 0.05
"""How far a name's size may be from the parameters of a model whose own name has none."""
_FAMILIES = {
    # a switch or a vision transformer is another thing
    r"(?<![a-z])gpt(?![a-z])|^(?:(?:vanilla|dense|standard|decoder-only) )*transformer(?![a-z-])": (
        re.compile(r"(?:gpt3|megatron)-[0-9.]{1,5}[bmt]")
    ),
    r"(?<![a-z])llama[- ](?:style|like|based|type|arch)": re.compile(r"llama[23]?-[0-9.]{1,5}b"),
}
"""Models whose shapes stand for others of their kind, by what a name says of its kind."""
_NEAR = 0.15
"""How far a model's parameters may be from those of a row whose shape is not said."""
_LONGEST = 100


@dataclass(frozen=True)
class _Signature:
    """What the words of a name say."""

    family: str
    versions: tuple[float, ...]
    sizes: tuple[str, ...]


def model_named(text: str) -> str | None:
    """Return the only model that has the family, version and size of a name, if there is one.

    Spelling does not count: `LLaMA V2 7B` is `llama2-7b`. Where the name leaves out a version or
    the size of what is active, the only model without a contradiction is meant: `Nemotron-340B`
    is `nemotron-4-340b`.
    """
    return _meant(_signature(text))


def model_within(text: str) -> str | None:
    """Return the only model that is meant where words that no model's name has do not count.

    Tunings keep the shape of what they began with: `Llama2-Chinese-13b-Chat` is `llama2-13b`.
    """
    return _meant(_signature(text, strange=False))


def model_of_word(text: str) -> str | None:
    """Return the model with which a name begins, where a word and no number says the size.

    Tasks may stand behind it, who published or ported it in front: `BERT-Base pretrain`,
    `bert_large_squad` and `HuggingFace BERT (large)` are such.
    """
    said = _apart(text[:_LONGEST])
    front = next((at for at, word in enumerate(said) if word not in _PUBLISHERS), len(said))
    known = _sized_by_words()
    for end in range(len(said), front, -1):
        if (model := known.get("".join(said[front:end]))) is not None:
            return model
    return None


def _meant(wanted: _Signature) -> str | None:
    """Return the only model of a signature."""
    if not wanted.family or not wanted.sizes:
        return None
    same = [
        (known.versions, model)
        for known, model in _known()
        if known.family == wanted.family and _same_size(wanted, known, model)
    ]
    exact = {model for versions, model in same if versions == wanted.versions}
    loose = {model for _, model in same} if not wanted.versions else set[str]()
    for found in (exact, loose):
        if found:
            return next(iter(found)) if len(found) == 1 else None
    return None


def model_of_size(text: str, billions: float | None) -> str | None:
    """Return the model of a family that a name speaks of whose parameters come nearest to a size.

    Args:
        text: A name that no model has, as `GPT-style 6.7B`.
        billions: Parameters in billions; none where the name alone may say them.

    Returns:
        The catalog's name, or none where the family is unknown or none of its models is near.
    """
    folded = text.casefold()[:_LONGEST]
    if billions is None:
        said = [_SIZE.fullmatch(word) for word in _WORDS.findall(folded.replace("_", " "))]
        sizes = [float(size[1]) * _SCALE[size[2]] for size in said if size is not None]
        if len(sizes) != 1:
            return None
        wanted = sizes[0]
    else:
        wanted = billions * _SCALE["b"]
    family = next((of for kind, of in _FAMILIES.items() if re.search(kind, folded)), None)
    kin = [name for name in names("model") if family is not None and family.fullmatch(name)]
    far = {name: abs(parameters_of(name) / wanted - 1.0) for name in kin} if wanted > 0.0 else {}
    nearest = min(far, key=lambda name: far[name], default=None)
    return nearest if nearest is not None and far[nearest] <= _NEAR else None


def vocabulary_of(text: str) -> int | None:
    """Return the tokens that all models of a name's family and version know, if it says both.

    A model of another size has the tokenizer of its family: `Llama 3 300M` that of Llama 3.
    """
    wanted = _signature(text, strange=False)
    alike = {
        model
        for known, model in _known()
        if known.family == wanted.family and wanted.versions and known.versions == wanted.versions
    }
    found = {int(load_model(model).get("vocab", 0)) for model in alike}
    return found.pop() if len(found) == 1 else None


def nearest_models(text: str) -> list[str]:
    """Return up to three names of the catalog that look most like a text."""
    by_form = {normalised(name): name for name in names("model")}
    close = difflib.get_close_matches(normalised(text)[:_LONGEST], list(by_form), n=3, cutoff=0.6)
    return [by_form[form] for form in close]


def _signature(text: str, *, strange: bool = True) -> _Signature:
    """Take a name apart, with or without words that no model's name has."""
    folded = _RELEASE.sub(" ", text.casefold()[:_LONGEST])
    # `7 B` is a size
    folded = re.sub(r"(?<=[0-9]) (?=[bmt](?![a-z0-9]))", "", folded)
    # `Llama8B` has no version 8
    folded = re.sub(r"(?<=[a-z]{2})(?=[0-9]{1,4}(?:\.[0-9]{1,2})?[bm](?![a-z0-9]))", " ", folded)
    words = _WORDS.findall(folded.replace("_", " "))
    family = ""
    versions: list[float] = []
    sizes: list[str] = []
    for word in words:
        if word[-1] in "bmt" and any(c.isdigit() for c in word):
            sizes.append(word)
        elif word[0].isdigit():
            versions.append(float(word))
        elif word not in _IGNORED and (strange or word in _familiar()):
            family += word
    # DeepSeekV3 and LLaMAv2 write the version's letter to the name
    if versions and family.endswith("v"):
        family = family.removesuffix("v")
    return _Signature(family, tuple(versions), tuple(sorted(sizes)))


def _same_size(wanted: _Signature, known: _Signature, model: str) -> bool:
    if known.sizes:
        return set(wanted.sizes) <= set(known.sizes)
    # one guess is enough: without a size in the model's name, the version must agree
    size = _SIZE.fullmatch(wanted.sizes[0]) if len(wanted.sizes) == 1 else None
    if size is None or wanted.versions != known.versions:
        return False
    said = float(size[1]) * _SCALE[size[2]]
    return abs(parameters_of(model) / said - 1.0) < _CLOSE


@cache
def parameters_of(model: str) -> float:
    """Return the parameters of a model of the catalog."""
    return float(Workload(json.dumps(load_model(model))).parameters()["total"])


@cache
def _familiar() -> frozenset[str]:
    """Return the words of the catalog's names of models."""
    said = " ".join(names("model")).casefold().replace("_", " ")
    return frozenset(word for word in _WORDS.findall(said) if word.isalpha())


def _apart(text: str) -> tuple[str, ...]:
    """Return the words between a name's separators."""
    return tuple(word for word in re.split(r"[-_,;:()\[\]\s]+", text.casefold()) if word)


@cache
def _sized_by_words() -> dict[str, str]:
    """Return the models whose names end in a word for a size, by their names' letters alone."""
    sizes = "tiny|mini|small|medium|base|large|xl|xxl"
    sized = re.compile(rf".*[a-z0-9][-_ ](?:{sizes})", re.IGNORECASE)
    said = [(name, name) for name in names("model")]
    said += [(s.text, s.model) for s in model_spellings().values() if s.model and not s.note]
    return {"".join(_apart(text)): model for text, model in said if sized.fullmatch(text)}


@cache
def _known() -> tuple[tuple[_Signature, str], ...]:
    said = [(name, name) for name in names("model")]
    said += [(s.text, s.model) for s in model_spellings().values() if s.model and not s.note]
    return tuple((_signature(text), model) for text, model in said)
