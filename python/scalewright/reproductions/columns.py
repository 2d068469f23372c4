"""Which column of a table of results means what, however its header spells it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.reproductions.layout import heads_degrees

if TYPE_CHECKING:
    from collections.abc import Sequence


def _degree(axis: str, short: str, *more: str) -> tuple[str, ...]:
    """Return further headings of a degree of parallelism."""
    stem = f"{axis}_parallel"
    return (f"{short}_size", f"{short}_degree", f"{stem}_size", f"{stem}_degree", *more)


_SPELLINGS: dict[str, tuple[str, ...]] = {
    "paper": ("paper", "publication", "reference"),
    "table": ("table", "figure", "section"),
    "hardware": ("system_or_hw", "system", "hardware", "hw", "cluster"),
    "devices": ("devices", "gpus", "chips", "num_gpus", "n_gpus", "accelerators", "world_size"),
    "nodes": ("nodes", "num_nodes", "number_of_nodes", "n_nodes", "of_nodes"),
    "model": ("model", "model_name"),
    "size": ("model_size", "size"),
    "parameters": ("params_b", "parameters_billion", "parameters_b", "params"),
    "layers": ("layers", "num_layers", "n_layers", "n_layer"),
    "hidden": ("hidden", "hidden_size", "d_model", "n_embd"),
    "heads": ("heads", "attention_heads", "num_attention_heads", "n_heads", "n_head"),
    "kv_heads": ("kv_heads", "num_key_value_heads", "query_groups"),
    "ffn": ("ffn", "ffn_hidden_size", "intermediate_size", "d_ff"),
    "sequence": ("seq", "sequence", "sequence_length", "seq_length", "seq_len"),
    "vocab": ("vocab", "vocab_size", "vocabulary"),
    "padded_vocab": ("padded_vocab", "padded_vocab_size", "vocab_rows"),
    "experts": ("moe", "experts"),
    "expert_count": ("num_experts", "number_of_experts", "n_experts", "num_moe_experts"),
    "top_k": ("top_k", "topk", "moe_router_topk", "experts_per_token", "num_experts_per_tok"),
    "expert_ffn": ("expert_ffn", "moe_ffn_hidden_size", "moe_intermediate_size"),
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
    "schedule": ("schedule", "pipeline_schedule", "pp_schedule", "pipeline_parallel_schedule"),
    "token_slices": ("token_slices", "slices"),
    "data": ("dp", "data", "data_parallel", "data_parallelism"),
    "context": ("cp", "context", "context_parallel", "context_parallelism"),
    "expert": ("ep", "expert", "expert_parallel", "expert_parallelism"),
    "layout": (
        *("layout", "parallelism", "parallelization", "parallel_config", "parallel_strategy"),
        *("parallel_layout", "topology", "mesh", "setup", "strategy", "distributed_strategy"),
    ),
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
_WEAKER: dict[str, tuple[str, ...]] = {
    "hardware": (
        *("machine", "testbed", "node_type", "instance_type", "platform"),
        *("gpu_type", "gpu_model", "device_type", "accelerator", "gpu"),
    ),
    "devices": (
        *("gpu_count", "ngpu", "ngpus", "num_devices", "num_chips", "number_of_gpus"),
        *("number_of_chips", "number_of_devices", "number_of_accelerators"),
        *("of_gpus", "of_chips", "no_of_gpus", "npus", "tpus", "hpus", "xpus", "gcds", "cards"),
        *("num_npus", "num_tpus", "num_accelerators", "number_of_npus", "number_of_tpus"),
    ),
    "model": ("model_id", "base_model", "model_type", "model_variant", "llm", "network"),
    "sequence": (
        *("seqlen", "sequence_len", "context_length", "context_len"),
        *("max_seq_len", "max_seq_length", "max_sequence_length"),
    ),
    "global_batch": ("globalbatch", "global_bs", "global_batchsize"),
    "micro_batch": (
        *("microbatch_size", "lbs", "local_batch_size", "local_batch", "bs_gpu"),
        *("batch_size_gpu", "batch_size_per_gpu", "batch_per_gpu"),
        *("per_device_batch_size", "per_gpu_batch_size", "per_device_batch"),
        *("batch_size_per_device", "batch_per_device", "batch_size_device"),
        *("per_device_train_batch_size", "train_micro_batch_size_per_gpu", "device_batch_size"),
    ),
    "parameters": (
        *("parameters", "num_parameters", "parameter_count", "model_parameters", "num_params"),
        *("number_of_parameters", "total_parameters", "total_params"),
    ),
    "per_node": (
        *(
            "gpus_per_node",
            "devices_per_node",
            "chips_per_node",
            "gpus_node",
            "accelerators_per_node",
        ),
        *("num_gpus_per_node", "ngpus_per_node", "n_gpus_per_node", "nproc_per_node"),
    ),
    "zero": ("distributed_optimizer", "use_distributed_optimizer"),
    "source": ("remarks", "remark", "notes", "note", "comments", "comment"),
    "fabric": (
        *("interconnect", "fabric", "inter_node_interconnect", "inter_node_network"),
        *("internode_network", "network_fabric", "network_bandwidth", "nic", "nics"),
    ),
    "batch_tokens": (
        *("batch_tokens", "global_batch_tokens", "tokens_per_batch", "tokens_per_step"),
        *("global_batch_size_tokens", "batch_size_tokens", "batch_size_in_tokens"),
    ),
    "accumulation": (
        *("gradient_accumulation_steps", "gradient_accumulation", "grad_accum", "accumulation"),
        *("grad_accum_steps", "grad_acc", "grad_acc_steps", "accum_steps", "accumulation_steps"),
        *("gas", "ga", "micro_batches", "num_microbatches", "num_micro_batches", "microbatches"),
    ),
    "shards": ("dp_shard", "dp_shard_size", "dp_shard_degree", "data_parallel_shard_degree"),
    "replicas": (
        *("dp_replicate", "dp_replicate_size", "data_parallel_replicate_degree"),
        *("dp_replicate_degree", "hsdp_replicas"),
    ),
    "tensor": (
        *_degree("tensor", "tp", "tensor_model_parallel_size"),
        *("mp", "model_parallel", "model_parallel_size", "model_parallelism", "mp_size"),
    ),
    "pipeline": _degree("pipeline", "pp", "pipeline_model_parallel_size"),
    "data": _degree("data", "dp"),
    "context": _degree("context", "cp"),
    "expert": _degree("expert", "ep", "expert_model_parallel_size"),
    "recompute": (
        *("activation_recomputation", "activation_recompute", "activation_checkpoint"),
        *("gradient_checkpointing", "recompute_granularity", "remat", "ckpt", "ac"),
    ),
    "dtype": ("training_precision", "data_type", "mixed_precision", "compute_dtype"),
    "interleave": (
        *("vpp_size", "vp_size", "virtual_pipeline_size", "virtual_pipeline_parallel_size"),
        *("num_virtual_stages", "virtual_pipeline_model_parallel_size", "model_chunks"),
    ),
}
"""Headings that tell a column where none of its own does: of several, the first that is listed."""
_BY_SPELLING = {
    spelling: column
    for headings in (_SPELLINGS, _WEAKER)
    for column, spellings in headings.items()
    for spelling in spellings
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
    # ZeRO++ is another thing than ZeRO; a letter of microseconds is Greek
    spelt = header.casefold().replace("++", " plus ").replace("\u03bcs", "us")
    letters = "".join(c if c.isalnum() else " " for c in spelt)
    return "_".join(letters.split())


def column_of(name: str) -> str | None:
    """Return the column that a name means as a heading; none where it means none."""
    return _BY_SPELLING.get(plain(name))


def meanings(headers: Sequence[str]) -> list[str | None]:
    """Return the column that each header means; none for what no row needs."""
    names = [plain(header) for header in headers]
    told = [_BY_SPELLING.get(name) for name in names]
    for place, header in enumerate(headers):
        if "#" in header and names[place] == "gpu":
            told[place] = "devices"
        if heads_degrees(names[place]):
            told[place] = "layout"
    # who says the system and the kind of its devices says the machine once
    weaker: set[int] = set()
    for column, headings in _WEAKER.items():
        ranked = sorted(
            (headings.index(name) + 1 if name in headings else 0, place)
            for place, name in enumerate(names)
            if told[place] == column
        )
        weaker |= {place for rank, place in ranked[1:] if rank}
    return [None if place in weaker else column for place, column in enumerate(told)]


def time_column(headers: Sequence[str]) -> tuple[int, str] | None:
    """Return the place and unit of a column of step times, where there is one."""
    for place, header in enumerate(headers):
        if (unit := _TIMES.get(plain(header))) is not None:
            return place, unit
    return None
