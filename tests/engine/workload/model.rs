//! Which models do the tests ask about?

use scalewright::workload::Training;
use scalewright::workload::transformer::Transformer;
use serde_json::{Value, json};

pub(crate) fn model(text: &str) -> Transformer {
    Transformer::from_json(text).unwrap()
}

/// A decoder of the GPT family: learned positions, biases, GELU, tied table.
pub(crate) fn gpt(layers: u64, hidden: u64, heads: u64, vocab: u64, positions: u64) -> Transformer {
    model(&format!(
        r#"{{"name":"gpt","family":"decoder","layers":{layers},"hidden":{hidden},"heads":{heads},
        "ffn":{},"vocab":{vocab},"max_positions":{positions},"position":"learned",
        "activation":"gelu","norm":"layernorm","tied_embeddings":true,"qkv_bias":true,
        "output_bias":true,"ffn_bias":true}}"#,
        4 * hidden
    ))
}

/// A decoder with rotary positions, SwiGLU and root-mean-square norms; `more` holds further fields.
pub(crate) fn llama(sizes: [u64; 6], more: &str) -> Transformer {
    let [layers, hidden, heads, kv_heads, ffn, vocab] = sizes;
    model(&format!(
        r#"{{"name":"llama","family":"decoder","layers":{layers},"hidden":{hidden},
        "heads":{heads},"kv_heads":{kv_heads},"ffn":{ffn},"vocab":{vocab},"position":"rotary",
        "activation":"swiglu","norm":"rmsnorm"{more}}}"#
    ))
}

pub(crate) fn training(sequence: u64, flash_attention: bool, dropout: bool) -> Training {
    let text = format!(
        r#"{{"global_batch":8,"sequence":{sequence},"flash_attention":{flash_attention},
        "dropout":{dropout}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

/// A tied layernorm decoder or encoder with biases everywhere; `more` overrides and adds fields.
pub(crate) fn biased(more: &Value) -> Transformer {
    let base = json!({"name": "biased", "family": "decoder", "position": "none",
        "activation": "gelu", "norm": "layernorm", "tied_embeddings": true, "qkv_bias": true,
        "output_bias": true, "ffn_bias": true});
    model(&merged(base, more).to_string())
}

/// A decoder as most recent ones are; `more` overrides and adds fields.
pub(crate) fn recent(more: &Value) -> Transformer {
    let base = json!({"name": "recent", "family": "decoder", "position": "rotary",
        "activation": "swiglu", "norm": "rmsnorm"});
    model(&merged(base, more).to_string())
}

pub(crate) fn merged(mut base: Value, more: &Value) -> Value {
    let fields = base.as_object_mut().unwrap();
    for (name, value) in more.as_object().unwrap() {
        fields.insert(name.clone(), value.clone());
    }
    base
}

pub(crate) fn deepseek(
    layers: u64,
    hidden: u64,
    vocab: u64,
    query_rank: Option<u64>,
    experts: &Value,
) -> Transformer {
    recent(
        &json!({"layers": layers, "hidden": hidden, "heads": 128, "ffn": experts["dense"],
        "vocab": vocab, "experts": experts["mixture"],
        "latent": {"query_rank": query_rank, "kv_rank": 512, "nope_dim": 128, "rope_dim": 64,
            "value_dim": 128}}),
    )
}

pub(crate) fn t5(heads: u64, ffn: u64) -> Transformer {
    model(
        &json!({"name": "t5", "family": "encoder_decoder", "layers": 24, "encoder_layers": 24,
        "hidden": 1024, "heads": heads, "head_dim": 128, "ffn": ffn, "vocab": 32_128,
        "position": "relative", "activation": "relu", "norm": "rmsnorm",
        "tied_embeddings": true})
        .to_string(),
    )
}

/// Nemotron 3 Nano, as NVIDIA describes it: 23 mixers, 23 mixtures, 6 layers of attention.
pub(crate) fn nemotron_3_nano() -> Transformer {
    model(
        &json!({"name": "nano", "family": "decoder", "layers": 52,
        "layer_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
        "hidden": 2688, "heads": 32, "kv_heads": 2, "head_dim": 128, "ffn": 1856, "vocab": 131_072,
        "position": "none", "activation": "relu2", "norm": "rmsnorm",
        "state_space": {"heads": 64, "head_dim": 64, "state": 128, "groups": 8},
        "experts": {"experts": 128, "top_k": 6, "expert_ffn": 1856, "shared_ffn": 3712,
            "router_bias": true}})
        .to_string(),
    )
}

/// A model of the kind of Qwen3.5: a gated delta rule in three layers of four, attention with a gate in the fourth, and a
/// module that predicts one token further.
pub(crate) fn qwen3_5(more: &Value) -> Transformer {
    let fields = json!({"name": "qwen", "family": "decoder", "head_dim": 256, "vocab": 248_320,
        "position": "rotary", "activation": "swiglu", "norm": "rmsnorm", "qk_norm": true,
        "output_gate": true, "prediction_layers": 1, "ffn": 0,
        "attention_pattern": ["state_space", "state_space", "state_space", "full"]});
    model(&merged(fields, more).to_string())
}

/// Widths of its rule, with so many heads of values.
pub(crate) fn rule(heads: u64) -> Value {
    json!({"rule": "gated_delta", "heads": heads, "head_dim": 128, "state": 128, "groups": 16})
}

/// Qwen3.5 27B, dense.
pub(crate) fn qwen3_5_27b() -> Transformer {
    qwen3_5(
        &json!({"layers": 64, "hidden": 5120, "heads": 24, "kv_heads": 4, "ffn": 17_408,
        "state_space": rule(48)}),
    )
}

/// Qwen3.5 35B-A3B.
pub(crate) fn qwen3_5_35b() -> Transformer {
    qwen3_5(
        &json!({"layers": 40, "hidden": 2048, "heads": 16, "kv_heads": 2,
        "state_space": rule(32), "experts": {"experts": 256, "top_k": 8, "expert_ffn": 512,
        "shared_ffn": 512, "shared_gate": true}}),
    )
}
