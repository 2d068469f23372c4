"""Which family does a `config.json` belong to, and what shape does that family's reader find?"""

from __future__ import annotations

import difflib
import json
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, cast

from scalewright.config.fields import Fields
from scalewright.config.huggingface import delta_rule, encoders, gpt, hybrids, llama, mixtures
from scalewright.config.huggingface.widths import MOST_LAYERS, Shape, compact
from scalewright.errors import InvalidError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable

FAMILIES: dict[str, Callable[[Fields], Shape]] = {
    "bert": encoders.bert,
    "bloom": gpt.bloom,
    "deepseek": mixtures.deepseek,
    "deepseek_v2": mixtures.deepseek_v2,
    "deepseek_v3": mixtures.deepseek_v3,
    "falcon": gpt.falcon,
    "gemma": llama.gemma,
    "gemma2": llama.gemma2,
    "gemma3": llama.gemma3,
    "gemma3_text": llama.gemma3,
    "gpt2": gpt.gpt2,
    "gpt_neox": gpt.gpt_neox,
    "gpt_oss": mixtures.gpt_oss,
    "gptj": gpt.gptj,
    "granitemoehybrid": hybrids.granite_hybrid,
    "kimi_k2": mixtures.deepseek_v3,
    "llama": llama.llama,
    "mamba2": hybrids.mamba2,
    "mistral": llama.mistral,
    "mixtral": mixtures.mixtral,
    "mpt": gpt.mpt,
    "nemotron": gpt.nemotron,
    "nemotron_h": hybrids.nemotron_h,
    "opt": gpt.opt,
    "qwen2": llama.qwen2,
    "qwen2_moe": mixtures.qwen2_moe,
    "qwen3": llama.qwen3,
    "qwen3_5": delta_rule.qwen3_5,
    "qwen3_5_moe": delta_rule.qwen3_5_moe,
    "qwen3_5_moe_text": delta_rule.qwen3_5_moe,
    "qwen3_5_text": delta_rule.qwen3_5,
    "qwen3_moe": mixtures.qwen3_moe,
    "qwen3_next": delta_rule.qwen3_next,
    "t5": encoders.t5,
}
"""Reader of each `model_type`."""


_OTHER_PARTS = (
    *("vision_config", "audio_config", "speech_config", "vq_config", "qformer_config"),
    *("talker_config", "code2wav_config"),
)
_MODULES = "mtp_num_hidden_layers"


def read_config(path: str | Path) -> Shape:
    """Return the transformer that a `config.json` describes, in the engine's model schema.

    Fields that hold the schema's default are left out.

    Args:
        path: The file, or a directory with a `config.json`.

    Raises:
        InvalidError: The file cannot be read, or a field is missing, wrong or contradicts another.
        UnknownNameError: Its `model_type` belongs to no family in `FAMILIES`.
    """
    path = Path(path)
    fields = Fields(_object(path), str(path))
    fields, model_type = _text_model(fields)
    if model_type not in FAMILIES:
        nearest = difflib.get_close_matches(model_type, FAMILIES, n=1, cutoff=0.0)[0]
        message = (
            f"{path}: model_type: unknown family '{model_type[:60]}'; "
            f"nearest: {nearest}; known: {', '.join(FAMILIES)}"
        )
        raise UnknownNameError(message)
    found = FAMILIES[model_type](fields)
    if found["family"] == "decoder":
        found |= _prediction(fields)
    return compact({"name": _name(path), "source": str(path), **found})


def parts_left_out(path: str | Path) -> tuple[str, ...]:
    """Return the fields of a `config.json` that hold parts of the model which `read_config` drops.

    Encoders of images and sound, and modules that predict a token further in families whose config
    does not say what lies in them.
    """
    path = Path(path)
    values = _object(path)
    found = [field for field in _OTHER_PARTS if values.get(field)]
    inner = values.get("text_config")
    text = cast("dict[str, object]", inner) if isinstance(inner, dict) else values
    return (*found, *([_MODULES] if text.get(_MODULES) else ()))


def _prediction(fields: Fields) -> Shape:
    """Return the modules that predict a token further, each with a layer like the last one."""
    modules = fields.count("num_nextn_predict_layers", default=0, least=0, most=MOST_LAYERS)
    if not modules:
        return {}
    pattern = "mtp_hybrid_override_pattern"
    told = {"prediction_pattern": fields.text(pattern)} if fields.has(pattern) else {}
    return {"prediction_layers": modules, **told}


def _text_model(fields: Fields) -> tuple[Fields, str]:
    """Return the fields and the family of the text model, which vision models nest."""
    inner = fields.inner("text_config")
    if inner is None:
        return fields, fields.text("model_type")
    inner = inner.with_fallback(fields, "tie_word_embeddings")
    return inner, (inner if inner.has("model_type") else fields).text("model_type")


def _name(path: Path) -> str:
    named = path if path.is_dir() or path.name != "config.json" else path.resolve().parent
    return named.name.removesuffix(".json").lower() or "model"


def _object(path: Path) -> dict[str, object]:
    file = path / "config.json" if path.is_dir() else path
    try:
        text = file.read_text(encoding="utf-8-sig")
        value = json.loads(text, object_pairs_hook=_finite)
    except OSError as error:
        message = f"{file}: cannot be read: {error.strerror}"
        raise InvalidError(message) from error
    except InvalidError as error:
        message = f"{path}: {error}"
        raise InvalidError(message) from error
    except (ValueError, RecursionError) as error:
        message = f"{path}: not valid JSON: {error}"
        raise InvalidError(message) from error
    if not isinstance(value, dict):
        message = f"{path}: got a {type(value).__name__}; allowed: a JSON object"
        raise InvalidError(message)
    return cast("dict[str, object]", value)


def _finite(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object of the file, whose numbers have an end."""
    for key, value in pairs:
        for number in cast("list[object]", value) if isinstance(value, list) else [value]:
            if isinstance(number, float) and not isfinite(number):
                message = f"{key}: got {json.dumps(number)}; allowed: finite numbers"
                raise InvalidError(message)
    return dict(pairs)
