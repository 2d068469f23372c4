"""Models as Transformers, torchtitan and nanoGPT write them, to be timed on a GPU.

PyTorch comes as an argument, so that the package imports without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scalewright.calibration.program_runs import NANOGPT, NANOGPT_VOCAB, TORCHTITAN, TRANSFORMERS

if TYPE_CHECKING:
    from scalewright.calibration.program_runs import Run, Shape

_CLASSES = {
    "gpt2": "GPT2",
    "llama": "Llama",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
    "qwen3_moe": "Qwen3Moe",
}
_POSITIONS = 65536
_THETA = 5e5


def model_of(torch: Any, run: Run, device: str) -> Any:  # noqa: ANN401 - PyTorch has no types here
    """Return the model of a run with random weights, on a device."""
    torch.set_default_dtype(torch.float32 if run.autocast else torch.bfloat16)
    try:
        with torch.device(device):
            build = {TRANSFORMERS: _transformers, TORCHTITAN: _torchtitan, NANOGPT: _nanogpt}
            model = build[run.program](torch, run)
    finally:
        torch.set_default_dtype(torch.float32)
    model.train()
    if run.compiled and run.program == TORCHTITAN:
        for index, block in enumerate(model.blocks):
            model.blocks[index] = torch.compile(block, fullgraph=True)
    return torch.compile(model) if run.compiled and run.program == NANOGPT else model


def _transformers(torch: Any, run: Run) -> Any:  # noqa: ANN401, ARG001 - one of three builders
    library = import_module("transformers")
    shape = run.shape
    name = _CLASSES[shape.kind]
    config = getattr(library, f"{name}Config")(
        use_cache=False, attn_implementation="sdpa", **_settings(shape)
    )
    model = getattr(library, "GPT2LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM")(config)
    if run.recompute:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model


def _settings(shape: Shape) -> dict[str, object]:
    """Return what the configuration of Transformers calls the sizes of a model."""
    if shape.kind == "gpt2":
        sizes = {"n_layer": shape.layers, "n_embd": shape.hidden, "n_head": shape.heads}
        return {**sizes, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    settings: dict[str, object] = {
        "num_hidden_layers": shape.layers,
        "hidden_size": shape.hidden,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "intermediate_size": shape.ffn,
        "vocab_size": shape.vocab,
        "tie_word_embeddings": shape.tied,
        "max_position_embeddings": _POSITIONS,
    }
    if shape.head:
        settings["head_dim"] = shape.head
    experts, taken = shape.experts
    if experts:
        settings |= {"num_experts": experts, "num_experts_per_tok": taken}
        settings |= {"moe_intermediate_size": shape.ffn, "norm_topk_prob": False}
    return settings


def _torchtitan(torch: Any, run: Run) -> Any:  # noqa: ANN401
    """Build a Llama with complex rotations, keys repeated, products of their own; head apart."""
    nn, shape = torch.nn, run.shape
    width = shape.hidden // shape.heads

    def linear(columns: int, rows: int) -> Any:  # noqa: ANN401
        return nn.Linear(columns, rows, bias=False)

    class Block(nn.Module):
        def __init__(self) -> None:
            nn.Module.__init__(self)
            self.norms = nn.ModuleList(nn.RMSNorm(shape.hidden, eps=1e-5) for _ in range(2))
            keys = shape.kv_heads * width
            self.query = linear(shape.hidden, shape.hidden)
            self.key, self.value = linear(shape.hidden, keys), linear(shape.hidden, keys)
            self.leaving = linear(shape.hidden, shape.hidden)
            self.gate, self.up = linear(shape.hidden, shape.ffn), linear(shape.hidden, shape.ffn)
            self.down = linear(shape.ffn, shape.hidden)

        def rotated(self, x: Any, turns: Any) -> Any:  # noqa: ANN401
            pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
            return torch.view_as_real(pairs * turns).flatten(3).type_as(x)

        def repeated(self, x: Any) -> Any:  # noqa: ANN401
            batch, length, heads, columns = x.shape
            times = shape.heads // shape.kv_heads
            wide = x[:, :, :, None, :].expand(batch, length, heads, times, columns)
            return wide.reshape(batch, length, heads * times, columns)

        def forward(self, x: Any, turns: Any) -> Any:  # noqa: ANN401
            batch, length, hidden = x.shape
            y = self.norms[0](x)
            query, key, value = (
                product(y).view(batch, length, -1, width)
                for product in (self.query, self.key, self.value)
            )
            query, key = self.rotated(query, turns), self.rotated(key, turns)
            heads = [z.transpose(1, 2) for z in (query, self.repeated(key), self.repeated(value))]
            seen = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
            x = x + self.leaving(seen.transpose(1, 2).reshape(batch, length, hidden))
            y = self.norms[1](x)
            return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))

    class Model(nn.Module):
        def __init__(self) -> None:
            nn.Module.__init__(self)
            self.table = nn.Embedding(shape.vocab, shape.hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(shape.layers))
            self.norm = nn.RMSNorm(shape.hidden, eps=1e-5)
            self.head = linear(shape.hidden, shape.vocab)

        def forward(self, tokens: Any) -> Any:  # noqa: ANN401
            places = torch.arange(tokens.shape[1], device=tokens.device).float()
            halves = torch.arange(0, width, 2, device=tokens.device).float() / width
            angles = torch.outer(places, _THETA**-halves)
            turns = torch.polar(torch.ones_like(angles), angles)[None, :, None, :]
            x = self.table(tokens)
            for block in self.blocks:
                x = _passed(torch, run, block, x, turns)
            return self.head(self.norm(x))

    return Model()


def _nanogpt(torch: Any, run: Run) -> Any:  # noqa: ANN401
    """Build a GPT-2 with PyTorch's own layer norm and GELU, output tied to the table."""
    nn, shape = torch.nn, run.shape

    class Block(nn.Module):
        def __init__(self) -> None:
            nn.Module.__init__(self)
            self.norms = nn.ModuleList(nn.LayerNorm(shape.hidden) for _ in range(2))
            self.entering = nn.Linear(shape.hidden, 3 * shape.hidden)
            self.leaving = nn.Linear(shape.hidden, shape.hidden)
            self.wide = nn.Linear(shape.hidden, shape.ffn)
            self.narrow = nn.Linear(shape.ffn, shape.hidden)

        def forward(self, x: Any) -> Any:  # noqa: ANN401
            batch, length, hidden = x.shape
            heads = [
                part.view(batch, length, shape.heads, -1).transpose(1, 2)
                for part in self.entering(self.norms[0](x)).split(hidden, 2)
            ]
            seen = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
            x = x + self.leaving(seen.transpose(1, 2).reshape(batch, length, hidden))
            return x + self.narrow(nn.functional.gelu(self.wide(self.norms[1](x))))

    class Model(nn.Module):
        def __init__(self) -> None:
            nn.Module.__init__(self)
            self.table = nn.Embedding(NANOGPT_VOCAB, shape.hidden)
            self.positions = nn.Embedding(run.sequence, shape.hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(shape.layers))
            self.norm = nn.LayerNorm(shape.hidden)

        def forward(self, tokens: Any) -> Any:  # noqa: ANN401
            places = torch.arange(tokens.shape[1], device=tokens.device)
            x = self.table(tokens) + self.positions(places)
            for block in self.blocks:
                x = _passed(torch, run, block, x)
            return nn.functional.linear(self.norm(x), self.table.weight)

    return Model()


def _passed(torch: Any, run: Run, block: Any, *given: Any) -> Any:  # noqa: ANN401
    if not run.recompute:
        return block(*given)
    return torch.utils.checkpoint.checkpoint(block, *given, use_reentrant=False)
