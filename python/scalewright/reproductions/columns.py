"""Which column of a table of results means what, however its header spells it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_SPELLINGS: dict[str, tuple[str, ...]] = {
    "paper": ("paper", "publication", "reference"),
    "table": ("table", "figure", "section"),
    "hardware": ("system_or_hw", "system", "hardware", "hw", "cluster"),
    "devices": ("devices", "gpus", "chips", "num_gpus", "n_gpus", "accelerators", "world_size"),
    "model": ("model", "model_name"),
    "parameters": ("params_b", "parameters_billion", "parameters_b", "params"),
    "layers": ("layers", "num_layers", "n_layers"),
    "hidden": ("hidden", "hidden_size", "d_model"),
    "heads": ("heads", "attention_heads", "num_attention_heads", "n_heads"),
    "kv_heads": ("kv_heads", "num_key_value_heads", "query_groups"),
    "ffn": ("ffn", "ffn_hidden_size", "intermediate_size", "d_ff"),
    "sequence": ("seq", "sequence", "sequence_length", "seq_length", "seq_len"),
    "vocab": ("vocab", "vocab_size", "vocabulary"),
    "padded_vocab": ("padded_vocab", "padded_vocab_size", "vocab_rows"),
    "experts": ("moe", "experts"),
    "lora": ("lora", "lora_rank", "adapter_rank"),
    "lora_targets": ("lora_targets", "target_modules"),
    "capacity_factor": ("capacity_factor", "moe_capacity_factor"),
    "dense_layers": ("dense_layers", "first_dense_layers"),
    "prediction_layers": ("prediction_layers", "mtp_layers", "mtp_num_layers"),
    "global_batch": ("global_batch", "global_batch_size", "batch", "batch_size", "gbs"),
    "micro_batch": ("micro_batch", "micro_batch_size", "microbatch", "mbs"),
    "tensor": ("tp", "tensor", "tensor_parallel", "tensor_parallelism"),
    "pipeline": ("pp", "pipeline", "pipeline_parallel", "pipeline_parallelism"),
    "interleave": ("interleave", "vp", "vpp", "virtual_pipeline", "virtual_stages"),
    "token_slices": ("token_slices", "slices"),
    "data": ("dp", "data", "data_parallel", "data_parallelism"),
    "context": ("cp", "context", "context_parallel", "context_parallelism"),
    "expert": ("ep", "expert", "expert_parallel", "expert_parallelism"),
    "zero": ("zero", "zero_stage", "fsdp", "sharding"),
    "offload_optimizer": ("offload_optimizer", "optimizer_offload", "cpu_offload"),
    "offload_activations": ("offload_activations", "activation_offload"),
    "recompute": ("recompute", "activation_checkpointing", "checkpointing", "recomputation"),
    "sequence_parallel": ("seq_parallel", "sequence_parallel", "sp"),
    "dtype": ("dtype", "precision"),
    "software": ("software_profile",),
    "program": ("program", "software", "software_stack"),
    "framework": ("framework", "trainer", "library"),
    "metric": ("metric",),
    "value": ("value", "published", "measured"),
    "unit": ("unit", "units"),
    "use": ("use",),
    "seen": ("source_kind", "seen"),
    "label": ("label", "run", "id"),
    "against": ("against", "baseline"),
    "source": ("source",),
}
BESIDE = frozenset(
    {"table", "metric", "value", "unit", "use", "seen", "label", "against", "source"}
)
"""Columns that say what was printed of a run and how; the others say which run it is."""
USES = ("validate", "calibrate")
SEEN = ("read", "recalled", "derived")
_BY_SPELLING = {
    spelling: column for column, spellings in _SPELLINGS.items() for spelling in spellings
}
_TIMES = {
    "iteration_time_ms": "ms",
    "iteration_time_s": "s",
    "iteration_time": "s",
    "step_time_ms": "ms",
    "step_time_s": "s",
}
"""Headers of a column that holds step times; its unit where the header says it."""


def plain(header: str) -> str:
    """Return a header in lower case with single underscores: `# GPUs` becomes `gpus`."""
    letters = "".join(c if c.isalnum() else " " for c in header.casefold())
    return "_".join(letters.split())


def meanings(headers: Sequence[str]) -> list[str | None]:
    """Return the column that each header means; none for what no row needs."""
    return [_BY_SPELLING.get(plain(header)) for header in headers]


def time_column(headers: Sequence[str]) -> tuple[int, str] | None:
    """Return the place and unit of a column of step times, where there is one."""
    for place, header in enumerate(headers):
        if (unit := _TIMES.get(plain(header))) is not None:
            return place, unit
    return None
