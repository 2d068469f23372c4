"""Which training steps of PyTorch programs are timed, and how do their rows say so?"""

from __future__ import annotations

from dataclasses import dataclass

COLUMNS = (
    "paper",
    "table",
    "system_or_hw",
    "devices",
    "model",
    "params_B",
    "layers",
    "hidden",
    "heads",
    "kv_heads",
    "ffn",
    "vocab",
    "seq",
    "global_batch",
    "micro_batch",
    "tp",
    "pp",
    "dp",
    "cp",
    "ep",
    "zero",
    "recompute",
    "dtype",
    "source",
    "source_kind",
    "software_profile",
    "metric",
    "value",
    "unit",
)
TRANSFORMERS, TORCHTITAN, NANOGPT = "transformers", "torchtitan", "nanogpt"
NANOGPT_VOCAB = 50304
_GIGA = 1e9


@dataclass(frozen=True)
class Shape:
    """What a model is called in the catalog and what its program needs to know."""

    kind: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    tied: bool = False
    head: int = 0
    experts: tuple[int, int] = (0, 0)


SHAPES = {
    "gpt2-124m": Shape("gpt2", 12, 768, 12, 12, 3072, 50257, tied=True),
    "gpt2-large": Shape("gpt2", 36, 1280, 20, 20, 5120, 50257, tied=True),
    "gpt2-xl": Shape("gpt2", 48, 1600, 25, 25, 6400, 50257, tied=True),
    "llama-3.2-1b": Shape("llama", 16, 2048, 32, 8, 8192, 128256, tied=True),
    "llama-3.2-3b": Shape("llama", 28, 3072, 24, 8, 8192, 128256, tied=True),
    "llama2-7b": Shape("llama", 32, 4096, 32, 32, 11008, 32000),
    "qwen2.5-1.5b": Shape("qwen2", 28, 1536, 12, 2, 8960, 151936, tied=True),
    "qwen3-1.7b": Shape("qwen3", 28, 2048, 16, 8, 6144, 151936, tied=True, head=128),
    "qwen3-4b": Shape("qwen3", 36, 2560, 32, 8, 9728, 151936, tied=True, head=128),
    "smollm-135m": Shape("llama", 30, 576, 9, 3, 1536, 49152, tied=True),
    "tinyllama-1.1b": Shape("llama", 22, 2048, 32, 4, 5632, 32000),
    "OLMoE 1B-7B": Shape("qwen3_moe", 16, 2048, 16, 16, 1024, 50304, head=128, experts=(64, 8)),
}


@dataclass(frozen=True)
class Run:
    """One training step of a program."""

    model: str
    micro_batch: int
    sequence: int
    program: str = TRANSFORMERS
    autocast: bool = False
    recompute: bool = False
    compiled: bool = False
    fused: bool = False
    accumulation: int = 1

    @property
    def shape(self) -> Shape:
        """What its model is."""
        return SHAPES[self.model]

    @property
    def profile(self) -> str:
        """The software profile that says what the program does."""
        plain = self.shape.kind == "gpt2"
        if self.program == TORCHTITAN:
            name, cast = f"torchtitan-{'compile' if self.compiled else 'eager'}-2026", ""
        elif self.program == NANOGPT:
            name = "compiled-gpt-2026" if self.compiled else "eager-gpt-2026"
            cast = "" if self.compiled else "+gpt-autocast"
        elif plain:
            name, cast = "eager-gpt2-2026", "+gpt2-autocast"
        else:
            name, cast = "eager-llama-2026", "+llama-autocast"
        return name + cast * self.autocast + "+fused-adamw" * self.fused

    def rows(
        self, system: str, source: str, parameters: int, seconds: float, peak_bytes: int
    ) -> list[tuple[object, ...]]:
        """Return the cells of `COLUMNS` for its time and its peak of memory on a device."""
        shape, own = self.shape, self.program != TRANSFORMERS
        if self.program == TORCHTITAN:
            sizes = (shape.hidden, shape.heads, shape.kv_heads, shape.ffn, shape.vocab)
            model = ("", f"{parameters / _GIGA:.4g}", shape.layers, *sizes)
        elif self.program == NANOGPT:
            model = (self.model, "", "", "", "", "", "", NANOGPT_VOCAB)
        else:
            model = (self.model, f"{parameters / _GIGA:.4g}", "", "", "", "", "", "")
        kind = {"gpt2": "GPT-2", "qwen3_moe": "mixture"}.get(shape.kind, "Llama")
        table = f"{kind}, {'autocast' if self.autocast else 'pure bf16'}"
        if own:
            name = "nanoGPT" if self.program == NANOGPT else "torchtitan"
            table = f"{name}, {'compiled' if self.compiled else 'eager'}"
        paper = "blocks of torchtitan and nanoGPT" if own else "models of Hugging Face Transformers"
        before = (
            *(f"Steps timed on {system}, {paper}", table, system, 1, *model, self.sequence),
            *(self.micro_batch * self.accumulation, self.micro_batch, 1, 1, 1, 1, 1, 0),
            "full" if self.recompute else "none",
            "bf16" if self.autocast else "pure bf16",
            *(source, "read", self.profile),
        )
        return [
            (*before, "iteration_time", f"{seconds:.5g}", "s"),
            (*before, "peak_allocated_per_gpu", f"{peak_bytes / _GIGA:.5g}", "GB"),
        ]


RUNS = (
    Run("llama-3.2-1b", 2, 4096),
    Run("tinyllama-1.1b", 8, 2048, autocast=True),
    Run("gpt2-xl", 8, 1024),
    Run("llama2-7b", 2, 2048, recompute=True),
    Run("smollm-135m", 8, 2048),
    Run("llama-3.2-1b", 1, 4096),
    Run("llama-3.2-1b", 4, 4096, recompute=True),
    Run("llama-3.2-1b", 1, 16384, recompute=True),
    Run("llama-3.2-1b", 2, 4096, autocast=True),
    Run("tinyllama-1.1b", 8, 2048),
    Run("tinyllama-1.1b", 2, 2048, autocast=True, accumulation=8),
    Run("llama2-7b", 1, 4096, recompute=True),
    Run("llama2-7b", 1, 2048),
    Run("qwen2.5-1.5b", 2, 4096),
    Run("qwen3-1.7b", 2, 4096),
    Run("qwen3-4b", 2, 4096, recompute=True),
    Run("llama-3.2-3b", 1, 8192, recompute=True),
    Run("llama-3.2-3b", 1, 4096),
    Run("smollm-135m", 32, 1024),
    Run("gpt2-124m", 8, 1024, autocast=True),
    Run("gpt2-124m", 32, 1024),
    Run("gpt2-large", 8, 1024, autocast=True),
    Run("gpt2-xl", 16, 1024, recompute=True),
    Run("llama-3.2-1b", 2, 4096, TORCHTITAN, fused=True),
    Run("llama-3.2-1b", 2, 4096, TORCHTITAN, compiled=True, fused=True),
    Run("llama-3.2-3b", 2, 4096, TORCHTITAN, compiled=True, fused=True, recompute=True),
    Run("gpt2-124m", 16, 1024, NANOGPT, autocast=True, fused=True),
    Run("gpt2-124m", 16, 1024, NANOGPT, autocast=True, compiled=True, fused=True),
    Run("llama2-7b", 4, 2048, recompute=True),
    Run("llama-3.2-1b", 2, 4096, fused=True),
    Run("gpt2-xl", 8, 1024, autocast=True),
    Run("llama2-7b", 1, 4096, TORCHTITAN, compiled=True, fused=True, recompute=True),
    Run("gpt2-xl", 8, 1024, NANOGPT, autocast=True, compiled=True, fused=True),
    Run("llama2-7b", 2, 4096, TORCHTITAN, fused=True, recompute=True),
    Run("OLMoE 1B-7B", 1, 4096, fused=True),
    Run("gpt2-large", 8, 1024, NANOGPT, fused=True),
    Run("tinyllama-1.1b", 4, 2048, TORCHTITAN, autocast=True, compiled=True, fused=True),
)
"""All of them; the H100 of `timed_steps.csv` has 80 GB."""
