"""Which model, job and plan do a user's own Megatron-LM arguments ask for?"""

from __future__ import annotations

import re
import shlex
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from scalewright.errors import InvalidError

_ASSIGNMENT = re.compile(r"^\s*(?:export\s+)?([A-Za-z_]\w*)=(.*)$")
_VARIABLE = re.compile(r"\$\{(\w+)(?::?-([^}]*))?\}|\$(\w+)")
_OPTION = re.compile(r"^--[A-Za-z][\w-]*$")
_YAML = re.compile(r"^\s*-{0,2}([A-Za-z][\w-]*)\s*:\s*(.*)$")
_MOST_DEPTH = 8

_COUNTS = {
    "num-layers", "hidden-size", "num-attention-heads", "ffn-hidden-size", "num-query-groups",
    "kv-channels", "seq-length", "max-position-embeddings", "vocab-size", "micro-batch-size",
    "global-batch-size", "tensor-model-parallel-size", "pipeline-model-parallel-size",
    "context-parallel-size", "expert-model-parallel-size", "expert-tensor-parallel-size",
    "num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank",
    "num-experts", "moe-router-topk", "moe-ffn-hidden-size", "q-lora-rank", "kv-lora-rank",
    "moe-shared-expert-intermediate-size", "qk-head-dim", "qk-pos-emb-head-dim", "v-head-dim",
    "num-distributed-optimizer-instances", "make-vocab-size-divisible-by",
    "decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers",
    "nnodes", "nproc-per-node", "recompute-num-layers", "world-size",
}  # fmt: skip
_WORDS = {
    "position-embedding-type", "normalization", "recompute-granularity", "recompute-method",
    "recompute-activations", "sequence-parallel", "use-distributed-optimizer", "swiglu",
    "squared-relu", "group-query-attention", "untie-embeddings-and-output-weights",
    "disable-bias-linear", "add-qkv-bias", "qk-layernorm", "overlap-grad-reduce",
    "overlap-param-gather", "no-overlap-p2p-communication", "use-megatron-fsdp",
    "use-custom-fsdp", "data-parallel-sharding-strategy", "bf16", "fp16", "fp8-format",
    "fp8-recipe", "optimizer", "multi-latent-attention", "moe-layer-freq", "use-flash-attn",
    "moe-expert-capacity-factor", "attention-backend", "attention-dropout", "hidden-dropout",
    "account-for-loss-in-pipeline-split", "account-for-embedding-in-pipeline-split",
    "moe-token-dispatcher-type", "moe-grouped-gemm", "accumulate-allreduce-grads-in-fp32",
    "no-gradient-accumulation-fusion", "use-torch-fsdp2", "model-name",
}  # fmt: skip
_NEEDED = ("num-layers", "hidden-size", "num-attention-heads", "seq-length", "global-batch-size")
_DROPOUT = 0.1


def read_megatron(path: str | Path) -> dict[str, Any]:
    """Read Megatron-LM arguments from a shell script or a file of `key: value` lines.

    Variables and arrays that the script assigns before use are followed. Arguments that change
    neither shape nor plan are listed under `ignored`.

    Returns:
        `model`, `training` and `plan` as the engine reads them, `devices` (None where the file
        does not say) and `ignored`.

    Raises:
        InvalidError: The file cannot be read, an argument that matters is missing, misspelt or
            holds a wrong value; the message names the file and the argument.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"'{path}' cannot be read: {error}"
        raise InvalidError(message) from error
    given, ignored = _known(_tokens(text), str(path))
    for name in _NEEDED:
        if name not in given:
            message = f"{path}: --{name}: got nothing; allowed: a count"
            raise InvalidError(message)
    reading = _Reading(given, str(path))
    return {
        "model": reading.model(),
        "training": reading.training(),
        "plan": reading.plan(),
        "devices": reading.devices(),
        "ignored": ignored,
    }


def _tokens(text: str) -> list[tuple[str, str]]:
    """Return every argument with its value, in order; switches have an empty value."""
    text = text.replace("\\\n", " ")
    variables: dict[str, str] = {}
    words: list[str] = []
    for line in _joined(text):
        bare = line.split(" #")[0].strip()
        if not bare or bare.startswith("#"):
            continue
        if found := _ASSIGNMENT.match(bare):
            name, value = found[1].replace("-", "_"), found[2].strip()
            value = value[1:-1] if value.startswith("(") and value.endswith(")") else value
            value = value.strip("\"'") if value[:1] in "\"'" else value
            variables[name] = _expanded(value, {**variables, name: variables.get(name, "")})
        if "--" in bare and not _ASSIGNMENT.match(bare):
            words += _split(_expanded(bare, variables))
        elif (pair := _YAML.match(bare)) and "--" not in bare and "=" not in bare:
            flat = pair[2].strip().strip("\"'")
            words += ["--" + pair[1].replace("_", "-")] + ([flat] if flat else [])
    if not any(_OPTION.match(word) for word in words):
        for value in variables.values():
            words += _split(_expanded(value, variables))
    for name in ("WORLD_SIZE", "NNODES", "NUM_NODES", "GPUS_PER_NODE"):
        if name in variables:
            option = {"WORLD_SIZE": "world-size", "GPUS_PER_NODE": "nproc-per-node"}
            words += ["--" + option.get(name, "nnodes"), _expanded(variables[name], variables)]
    return _paired(words)


def _joined(text: str) -> list[str]:
    """Return the lines of a script with arrays in brackets brought to one line each."""
    lines: list[str] = []
    inside = False
    for raw in text.splitlines():
        line = re.sub(r"(^|\s)#.*$", "", raw)
        if inside and lines:
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
        inside = inside or "=(" in line
        if inside and line.strip().endswith(")"):
            inside = False
    return lines


def _expanded(text: str, variables: dict[str, str]) -> str:
    """Put the values of variables in, arrays included."""
    text = re.sub(r"\$\{(\w+)\[[@*]\]\}", r"${\1}", text)
    for _ in range(_MOST_DEPTH):
        done = _VARIABLE.sub(lambda m: variables.get(m[1] or m[3], "") or m[2] or "", text)
        if done == text or len(done) > 2**20:
            return done
        text = re.sub(r"\$\{(\w+)\[[@*]\]\}", r"${\1}", done)
    return text


def _split(text: str) -> list[str]:
    try:
        parts = shlex.split(text, comments=True)
    except ValueError:
        parts = text.split()
    # a quoted variable may hold several arguments
    return [word for part in parts for word in (part.split() if "--" in part else [part])]


def _paired(words: list[str]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if not _OPTION.match(name):
            continue
        if not equals and index + 1 < len(words) and not words[index + 1].startswith("--"):
            value = words[index + 1]
        pairs.append((name[2:].replace("_", "-"), value))
    return pairs


def _known(pairs: list[tuple[str, str]], where: str) -> tuple[dict[str, str], list[str]]:
    """Split arguments into those that matter (the last one wins) and the names of the others."""
    known = _COUNTS | _WORDS
    given: dict[str, str] = {}
    ignored: list[str] = []
    for name, value in pairs:
        if name in known:
            given[name] = value
        elif near := get_close_matches(name, known, n=1, cutoff=0.93):
            message = f"{where}: --{name}: unknown argument; nearest: --{near[0]}"
            raise InvalidError(message)
        elif name not in ignored:
            ignored.append(name)
    return given, ignored


class _Reading:
    """Arguments of one file, read with their types."""

    def __init__(self, given: dict[str, str], where: str) -> None:
        self._given = given
        self._where = where
        for name in given:
            if name in _COUNTS:
                self._count(name, 1)

    def _wrong(self, name: str, allowed: str) -> NoReturn:
        message = f"{self._where}: --{name}: got '{self._given.get(name, '')}'; allowed: {allowed}"
        raise InvalidError(message) from None

    def _count(self, name: str, default: int) -> int:
        if name not in self._given:
            return default
        try:
            value = int(self._given[name])
        except ValueError:
            self._wrong(name, "a whole number")
        if not 0 < value <= 2**40:
            self._wrong(name, "1 or more")
        return value

    def _share(self, name: str, default: float) -> float:
        try:
            return float(self._given.get(name, default))
        except ValueError:
            self._wrong(name, "a number")

    def _has(self, *names: str) -> bool:
        return any(self._given.get(name, "false").lower() != "false" for name in names)

    def model(self) -> dict[str, Any]:
        hidden, heads = self._count("hidden-size", 0), self._count("num-attention-heads", 0)
        swiglu = self._has("swiglu")
        position = self._given.get("position-embedding-type", "learned_absolute")
        positions = {"learned_absolute": "learned", "rope": "rotary", "none": "none"}
        if position not in positions:
            self._wrong("position-embedding-type", ", ".join(positions))
        vocab = self._count("vocab-size", 50_257)
        bias = not self._has("disable-bias-linear")
        model: dict[str, Any] = {
            "name": "megatron-arguments",
            "family": "decoder",
            "layers": self._count("num-layers", 0),
            "hidden": hidden,
            "heads": heads,
            "ffn": self._count("ffn-hidden-size", _default_ffn(hidden, gated=swiglu)),
            "vocab": vocab,
            "position": positions[position],
            "activation": "swiglu" if swiglu else "relu" if self._has("squared-relu") else "gelu",
            "norm": "rmsnorm" if self._given.get("normalization") == "RMSNorm" else "layernorm",
            "tied_embeddings": not self._has("untie-embeddings-and-output-weights"),
            "qkv_bias": bias or self._has("add-qkv-bias"),
            "output_bias": bias,
            "ffn_bias": bias,
        }
        block = self._count("make-vocab-size-divisible-by", 128) * self._plan_count("tensor")
        if (padded := -(-vocab // block) * block) != vocab:
            model["padded_vocab"] = padded
        if position == "learned_absolute":
            sequence = self._count("seq-length", 1)
            model["max_positions"] = self._count("max-position-embeddings", sequence)
        if self._has("group-query-attention"):
            model["kv_heads"] = self._count("num-query-groups", 1)
        if "kv-channels" in self._given:
            model["head_dim"] = self._count("kv-channels", 1)
        if self._has("qk-layernorm"):
            model["qk_norm"] = True
        return model | self._latent() | self._experts(model["layers"])

    def _latent(self) -> dict[str, Any]:
        if not self._has("multi-latent-attention"):
            return {}
        latent: dict[str, Any] = {
            "kv_rank": self._count("kv-lora-rank", 32),
            "nope_dim": self._count("qk-head-dim", 128),
            "rope_dim": self._count("qk-pos-emb-head-dim", 64),
            "value_dim": self._count("v-head-dim", 128),
        }
        if "q-lora-rank" in self._given:
            latent["query_rank"] = self._count("q-lora-rank", 1)
        return {"latent": latent}

    def _experts(self, layers: int) -> dict[str, Any]:
        if "num-experts" not in self._given:
            return {}
        width = self._count("ffn-hidden-size", 4 * self._count("hidden-size", 0))
        experts: dict[str, Any] = {
            "experts": self._count("num-experts", 1),
            "top_k": self._count("moe-router-topk", 2),
            "expert_ffn": self._count("moe-ffn-hidden-size", width),
        }
        if "moe-shared-expert-intermediate-size" in self._given:
            experts["shared_ffn"] = self._count("moe-shared-expert-intermediate-size", 1)
        if "moe-expert-capacity-factor" in self._given:
            experts["capacity_factor"] = self._share("moe-expert-capacity-factor", 1.0)
        return {"experts": experts | self._sparse(layers)}

    def _sparse(self, layers: int) -> dict[str, int]:
        """Read which layers are sparse: every n-th, or a list of noughts and ones."""
        text = self._given.get("moe-layer-freq", "1").strip("'\"() ")
        if text.isdigit():
            return {"every": int(text)} if int(text) > 1 else {}
        pattern = _pattern(text)
        if pattern is None or len(pattern) != layers:
            self._wrong("moe-layer-freq", f"a number or a list for {layers} layers")
        dense = pattern.index(1) if 1 in pattern else layers
        for every in range(1, layers + 1):
            rest = [int((i + 1) % every == 0) for i in range(layers)]
            if pattern == rest:
                return {"every": every} if every > 1 else {}
        if pattern[dense:] == [1] * (layers - dense):
            return {"first_dense_layers": dense}
        self._wrong("moe-layer-freq", "leading dense layers, or every n-th layer sparse")

    def training(self) -> dict[str, Any]:
        precision = "bf16" if self._has("bf16") else "fp16" if self._has("fp16") else "fp32"
        if "fp8-format" in self._given:
            precision = "mxfp8" if self._given.get("fp8-recipe") == "mxfp8" else "fp8"
        optimizer = self._given.get("optimizer", "adam")
        if optimizer not in ("adam", "sgd"):
            self._wrong("optimizer", "adam, sgd")
        backend = self._given.get("attention-backend", "auto")
        fp32_sums = precision != "fp16" or self._has("accumulate-allreduce-grads-in-fp32")
        dropout = self._share("hidden-dropout", _DROPOUT) > 0
        return {
            "global_batch": self._count("global-batch-size", 1),
            "sequence": self._count("seq-length", 1),
            "precision": precision,
            "gradient": "fp32" if fp32_sums else "fp16",
            "fused_gradients": not self._has("no-gradient-accumulation-fusion"),
            "optimizer": optimizer,
            "flash_attention": backend in ("auto", "flash", "fused"),
            "dropout": dropout or self._share("attention-dropout", _DROPOUT) > 0,
        }

    def _plan_count(self, field: str) -> int:
        option = {
            "tensor": "tensor-model-parallel-size",
            "pipeline": "pipeline-model-parallel-size",
            "context": "context-parallel-size",
            "expert": "expert-model-parallel-size",
        }[field]
        return self._count(option, 1)

    def plan(self) -> dict[str, Any]:
        plan: dict[str, Any] = {
            field: self._plan_count(field) for field in ("tensor", "pipeline", "context", "expert")
        }
        plan["micro_batch"] = self._count("micro-batch-size", 1)
        plan["sequence_parallel"] = self._has("sequence-parallel")
        if "num-experts" in self._given:
            ranks = self._count("expert-tensor-parallel-size", plan["tensor"])
            plan["expert_tensor"] = 0 if ranks == plan["tensor"] else ranks
        plan |= self._schedule(plan["pipeline"]) | self._sharding()
        granularity = self._given.get("recompute-granularity")
        if granularity not in (None, "selective", "full"):
            self._wrong("recompute-granularity", "selective, full")
        plan["recompute"] = granularity or (
            "selective" if self._has("recompute-activations") else "none"
        )
        if (devices := self.devices()) is not None:
            ranks = plan["tensor"] * plan["pipeline"] * plan["context"]
            if devices % ranks:
                message = (
                    f"{self._where}: {devices} GPUs do not divide over tensor x pipeline x "
                    f"context = {ranks}"
                )
                raise InvalidError(message)
            plan["data"] = devices // ranks
        return plan

    def _schedule(self, pipeline: int) -> dict[str, Any]:
        layers = self._count("num-layers", 1)
        chunks = self._count("num-virtual-stages-per-pipeline-rank", 1)
        if "num-layers-per-virtual-pipeline-stage" in self._given:
            each = self._count("num-layers-per-virtual-pipeline-stage", 1)
            chunks = max(1, round(layers / (pipeline * each)))
        interleaved = chunks > 1 and pipeline > 1
        return {
            "interleave": chunks if interleaved else 1,
            "schedule": "interleaved" if interleaved else "1f1b",
            "overlap_pipeline": interleaved and not self._has("no-overlap-p2p-communication"),
        }

    def _sharding(self) -> dict[str, Any]:
        strategies = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
        zero = 1 if self._has("use-distributed-optimizer") else 0
        if self._has("use-megatron-fsdp", "use-custom-fsdp"):
            name = self._given.get("data-parallel-sharding-strategy", "no_shard")
            if name not in strategies:
                self._wrong("data-parallel-sharding-strategy", ", ".join(strategies))
            zero = max(zero, strategies[name])
        if self._has("use-torch-fsdp2"):
            zero = 3
        sharding: dict[str, Any] = {
            "zero": zero,
            "overlap_grad_reduce": self._has("overlap-grad-reduce"),
            "overlap_param_gather": self._has("overlap-param-gather"),
        }
        copies = self._count("num-distributed-optimizer-instances", 1)
        if copies > 1 and (devices := self.devices()) is not None:
            ranks = self._plan_count("tensor") * self._plan_count("pipeline")
            sharding["zero_group"] = devices // ranks // copies
        return sharding

    def devices(self) -> int | None:
        """Return the number of GPUs, where the file says it."""
        if "nnodes" in self._given and "nproc-per-node" in self._given:
            return self._count("nnodes", 1) * self._count("nproc-per-node", 1)
        return self._count("world-size", 1) if "world-size" in self._given else None


def _default_ffn(hidden: int, *, gated: bool) -> int:
    """Return Megatron-LM's default inner width: 4 h, or 8 h / 3 in multiples of 64 with a gate."""
    return int(4 * hidden * 2 / 3 / 64) * 64 if gated else 4 * hidden


def _pattern(text: str) -> list[int] | None:
    """Read `[0]*3+[1]*58` or `[0,1,1]`."""
    found: list[int] = []
    for part in re.split(r"\+", text.replace(" ", "")):
        match = re.fullmatch(r"\(?\[([01,]+)\]\)?(?:\*(\d{1,4}))?", part)
        if match is None:
            return None
        digits = [int(d) for d in match[1].split(",") if d]
        found += digits * int(match[2] or 1)
    return found
