//! Is every contradiction refused with the field, what was got and what is allowed?

use crate::workload::model::merged;
use scalewright::workload::Transformer;
use serde_json::{Value, json};

/// A small valid model, and a patch that makes it invalid.
fn refusal(patch: &Value) -> String {
    let base = json!({"name": "m", "family": "decoder", "layers": 2, "hidden": 64, "heads": 4,
        "ffn": 96, "vocab": 100, "position": "rotary", "activation": "gelu", "norm": "rmsnorm"});
    Transformer::from_json(&base.to_string()).unwrap();
    Transformer::from_json(&merged(base, patch).to_string())
        .unwrap_err()
        .to_string()
}

/// Each patch is refused with words that hold the text beside it.
fn refused(cases: &[(Value, &str)]) {
    for (patch, wanted) in cases {
        let error = refusal(patch);
        assert!(error.contains(wanted), "{patch}: {error}");
    }
}

#[test]
fn sizes_and_heads_name_their_field() {
    refused(&[
        (json!({"name": " "}), "model.name: got ''"),
        (json!({"layers": 0}), "model.layers: got 0; allowed: 1 to"),
        (json!({"hidden": 1u64 << 40}), "model.hidden: got"),
        (
            json!({"heads": 5}),
            "model.heads: got 5; allowed: a divisor of model.hidden = 64",
        ),
        (json!({"heads": 0}), "model.heads: got 0"),
        (
            json!({"kv_heads": 3}),
            "model.kv_heads: got 3; allowed: a divisor of model.heads = 4",
        ),
        (json!({"kv_heads": 0}), "model.kv_heads: got 0"),
        (json!({"head_dim": 0}), "model.head_dim: got 0"),
        (json!({"ffn": 0}), "model.ffn: got 0"),
        (
            json!({"padded_vocab": 99}),
            "model.padded_vocab: got 99; allowed: 100 to",
        ),
    ]);
}

#[test]
fn stacks_and_attention_name_their_field() {
    let latent = json!({"kv_rank": 16, "nope_dim": 8, "rope_dim": 8, "value_dim": 8});
    refused(&[
        (json!({"position": "learned"}), "model.max_positions: got 0"),
        (json!({"encoder_layers": 2}), "model.encoder_layers: got 2"),
        (
            json!({"output_gate": true, "family": "encoder"}),
            "model.output_gate: got true; allowed: false, or family decoder",
        ),
        (
            json!({"output_gate": true, "latent": latent}),
            "model.output_gate: got true; allowed: false, or family decoder without model.latent",
        ),
        (
            json!({"encoder_sequence": 2}),
            "model.encoder_sequence: got 2",
        ),
        (
            json!({"family": "encoder_decoder"}),
            "model.encoder_layers: got 0",
        ),
        (
            json!({"attention_pattern": ["sliding"]}),
            "model.sliding_window: got nothing",
        ),
        (json!({"sliding_window": 8}), "model.sliding_window: got 8"),
        (
            json!({"attention_pattern": ["full", "full", "full"]}),
            "model.attention_pattern: got 3",
        ),
        (
            json!({"latent": latent, "head_dim": 8}),
            "model.head_dim: got 8",
        ),
        (
            json!({"latent": latent, "kv_heads": 2}),
            "model.kv_heads: got 2",
        ),
    ]);
}

#[test]
fn experts_name_their_field() {
    let moe = |field: &str, value: Value| {
        let mut mixture = json!({"experts": 8, "top_k": 2, "expert_ffn": 48});
        mixture.as_object_mut().unwrap().insert(field.into(), value);
        json!({ "experts": mixture })
    };
    refused(&[
        (
            moe("top_k", json!(9)),
            "model.experts.top_k: got 9; allowed: 1 to 8",
        ),
        (moe("every", json!(3)), "model.experts.every: got 3"),
        (
            moe("first_dense_layers", json!(2)),
            "model.experts.first_dense_layers: got 2",
        ),
        (
            moe("shared_gate", json!(true)),
            "model.experts.shared_gate: got true",
        ),
        (
            moe("capacity_factor", json!(-1.0)),
            "model.experts.capacity_factor: got -1",
        ),
        (
            moe("expert_load", json!({"histogram": {"weights": [1.0, 2.0]}})),
            "model.experts.expert_load.histogram.weights: got 2 weights; allowed: one per expert, 8",
        ),
        (
            moe("expert_load", json!({"power_law": {"exponent": -1.0}})),
            "model.experts.expert_load.power_law.exponent: got -1",
        ),
    ]);
}

#[test]
fn frozen_weights_and_adapters_name_their_field() {
    refused(&[
        (
            json!({"frozen_layers": 3}),
            "model.frozen_layers: got 3; allowed: 0 to 2",
        ),
        (
            json!({"lora": {"rank": 0, "targets": ["query"]}}),
            "model.lora.rank: got 0",
        ),
        (
            json!({"lora": {"rank": 4, "targets": []}}),
            "model.lora.targets: got none",
        ),
        (
            json!({"lora": {"rank": 4, "targets": ["quary"]}}),
            "nearest: query",
        ),
        (
            json!({"lora": {"rank": 4, "targets": ["gate"]}}),
            "model.lora.targets: got gate",
        ),
        (
            json!({"frozen_layers": 1, "lora": {"rank": 4, "targets": ["query"]}}),
            "model.frozen_layers: got 1; allowed: 0: model.lora",
        ),
        (
            json!({"extra_parameters": {"pooler": 0}}),
            "model.extra_parameters.pooler: got 0",
        ),
        (json!({"hiden": 64}), "nearest: hidden"),
    ]);
}

#[test]
fn absurd_totals_are_refused() {
    let error = refusal(&json!({"layers": 60_000, "hidden": 16_000_000, "ffn": 16_000_000}));
    assert!(error.starts_with("model.parameters"), "{error}");
}

#[test]
fn letters_of_layers_and_mixers_name_their_field() {
    let scan = |field: &str, value: Value| {
        let mut widths = json!({"heads": 4, "head_dim": 8, "state": 16, "groups": 2});
        widths.as_object_mut().unwrap().insert(field.into(), value);
        json!({"layer_pattern": "M-", "state_space": widths})
    };
    let experts = json!({"experts": 8, "top_k": 2, "expert_ffn": 48});
    refused(&[
        (
            json!({"layer_pattern": "*A"}),
            "model.layer_pattern: got A; allowed: 'M' state space",
        ),
        (
            json!({"layer_pattern": "*-*"}),
            "model.layer_pattern: got 3 letters; allowed: one letter a layer, 2",
        ),
        (
            json!({"layer_pattern": "M-"}),
            "model.state_space: got nothing; allowed: widths where layers are state-space mixers",
        ),
        (
            json!({"layer_pattern": "*E"}),
            "model.experts: got nothing; allowed: widths where letters of layers have 'E'",
        ),
        (
            json!({"layer_pattern": "*-", "experts": experts}),
            "model.experts: got widths",
        ),
        (
            json!({"layer_pattern": "*-", "parallel_block": true}),
            "model.layer_pattern: got *-",
        ),
        (
            json!({"attention_pattern": ["state_space"]}),
            "model.state_space: got nothing",
        ),
        (
            json!({"state_space": {"heads": 4, "head_dim": 8, "state": 16}}),
            "model.state_space: got widths",
        ),
        (
            scan("groups", json!(3)),
            "model.state_space.groups: got 3; allowed: a divisor of state_space.heads = 4",
        ),
        (scan("groups", json!(0)), "model.state_space.groups: got 0"),
        (scan("chunk", json!(0)), "model.state_space.chunk: got 0"),
        (scan("state", json!(0)), "model.state_space.state: got 0"),
        (scan("taps", json!(4)), "state_space.taps"),
        (scan("rule", json!("delta")), "state_space.rule"),
        (
            json!({"prediction_layers": 1, "prediction_pattern": "Q"}),
            "model.prediction_pattern: got Q",
        ),
        (
            json!({"experts": {"experts": 8, "top_k": 2, "expert_ffn": 48, "latent_width": 0}}),
            "model.experts.latent_width: got 0",
        ),
    ]);
}
