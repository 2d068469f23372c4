//! Which laws hold for any model?

use crate::workload::measure::{bytes, close, walked};
use crate::workload::model::{merged, model, training};
use proptest::prelude::*;
use scalewright::workload::{FlopConvention, Transformer};
use serde_json::{Value, json};

/// Any model of small widths that `check` allows, dense or sparse, of any family.
fn any_model() -> impl Strategy<Value = Transformer> {
    let widths = (1..5_u64, 1..5_u64, 1..4_u64, 1..9_u64, 1..40_u64, 1..60_u64);
    let kinds = (0..3_usize, 0..4_usize, 0..4_usize, 0..5_usize);
    let switches = proptest::collection::vec(any::<bool>(), 11);
    let parts = (0..4_usize, 0..3_usize, 1..9_u64, 0..3_u64, 0..4_u64);
    (widths, kinds, switches, parts).prop_map(|(widths, kinds, on, parts)| {
        let (layers, groups, per_group, width, ffn, vocab) = widths;
        let (family, activation, training, position) = kinds;
        let (attention, mixture, experts, shared, frozen) = parts;
        let cross = family == 2;
        let family = ["decoder", "encoder", "encoder_decoder"][family];
        let position = ["learned", "rotary", "alibi", "relative", "none"][position];
        let heads = groups * per_group;
        let activation = ["gelu", "relu", "swiglu", "geglu"][activation];
        let mut fields = json!({"name": "any", "family": family,
            "layers": layers, "hidden": heads * width, "heads": heads, "ffn": ffn, "vocab": vocab,
            "max_positions": 16, "segments": frozen, "relative_buckets": 4,
            "position": position,
            "activation": activation, "norm": if on[0] { "layernorm" } else { "rmsnorm" },
            "tied_embeddings": on[1], "qkv_bias": on[2], "output_bias": on[3], "ffn_bias": on[4],
            "post_norms": on[5], "embedding_norm": on[6], "final_norm": on[7]});
        let mut add = |more: Value| fields = merged(fields.clone(), &more);
        if cross {
            add(json!({"encoder_layers": layers + 1, "encoder_sequence": 24}));
        } else {
            add(json!({"parallel_block": on[8]}));
        }
        if attention == 0 && !cross {
            let rank = on[9].then_some(width + 1);
            add(
                json!({"latent": {"query_rank": rank, "kv_rank": width + 2, "nope_dim": width,
                "rope_dim": 2, "value_dim": width + 3}}),
            );
        } else {
            add(json!({"kv_heads": groups, "head_dim": width + 1, "qk_norm": on[9]}));
        }
        if attention == 1 && layers > 1 {
            add(json!({"attention_pattern": ["sliding", "full"], "sliding_window": 4}));
        }
        if mixture > 0 {
            add(
                json!({"experts": {"experts": experts, "top_k": experts.div_ceil(2),
                "expert_ffn": ffn + 1, "shared_ffn": shared, "router_bias": on[10],
                "shared_gate": on[9] && shared > 0, "first_dense_layers": layers / 2,
                "every": if mixture == 2 { layers - layers / 2 } else { 1 }}}),
            );
        }
        if on[3] {
            add(json!({"padded_vocab": vocab + 5, "extra_parameters": {"a": 7, "b": 11}}));
        }
        match training {
            0 => add(
                json!({"lora": {"rank": 1, "targets": ["query", "value", "output", "up", "down"]}}),
            ),
            1 => add(json!({"lora": {"rank": 1, "targets": ["key"]}})),
            2 => add(json!({"frozen_layers": frozen.min(layers)})),
            _ if family == "decoder" => add(json!({"prediction_layers": frozen})),
            _ => {}
        }
        model(&fields.to_string())
    })
}

/// Any decoder of small widths whose layers are one part each, or mix positions by scans and attention.
fn any_hybrid() -> impl Strategy<Value = Transformer> {
    let letters = prop::collection::vec(prop::sample::select(vec!['M', '*', '-', 'E']), 1..7);
    let further = prop::collection::vec(prop::sample::select(vec!['M', '*', '-', 'E']), 0..3);
    let widths = (1..4_u64, 1..4_u64, 1..5_u64, 1..9_u64, 1..30_u64);
    let parts = (1..4_u64, 1..5_u64, 1..9_u64, 0..3_u64, 0..4_u64);
    (letters, further, widths, parts, any::<[bool; 6]>()).prop_map(
        |(letters, further, (groups, per_group, width, state, ffn), parts, on)| {
            let (convolution, chunk, experts, shared, modules) = parts;
            let heads = groups * per_group;
            let mut fields = json!({"name": "any", "family": "decoder", "layers": letters.len(),
                "hidden": heads * width, "heads": heads, "kv_heads": groups, "ffn": ffn,
                "vocab": 40, "position": "none", "norm": "rmsnorm",
                "activation": if on[0] { "relu2" } else { "swiglu" }, "post_norms": on[1],
                "tied_embeddings": on[2], "ffn_bias": on[3], "output_gate": on[3]});
            let mut add = |more: Value| fields = merged(fields.clone(), &more);
            let latent = on[4].then_some(state + 1);
            let mixture = json!({"experts": {"experts": experts, "top_k": experts.div_ceil(2),
                "expert_ffn": ffn + 1, "shared_ffn": shared, "latent_width": latent}});
            let scan = json!({"state_space": {"heads": heads, "head_dim": width + 1,
                "state": state, "groups": groups, "convolution": convolution,
                "chunk": chunk, "convolution_bias": on[1],
                "rule": if on[0] { "gated_delta" } else { "decay" }}});
            add(json!({"prediction_layers": modules}));
            if on[5] {
                let kinds = ["state_space", "full"][..letters.len().min(2)].to_vec();
                add(json!({"attention_pattern": kinds}));
                add(scan);
                add(mixture);
                return model(&fields.to_string());
            }
            let all: String = letters.iter().chain(&further).collect();
            add(json!({"layer_pattern": letters.iter().collect::<String>(),
                "prediction_pattern": further.iter().collect::<String>()}));
            if all.contains('M') {
                add(scan);
            }
            if all.contains('E') {
                add(mixture);
            }
            model(&fields.to_string())
        },
    )
}

fn any_shape() -> impl Strategy<Value = Transformer> {
    prop_oneof![any_model(), any_hybrid()]
}

proptest! {
    #[test]
    fn the_operators_hold_the_counted_weights(model in any_shape(), flash: bool, dropout: bool) {
        let counted = model.parameters();
        let (all, trained) = walked(&model.graph(&training(32, flash, dropout)));
        close(all, counted.padded_total as f64);
        // padding belongs to tables, which adapters and frozen layers may leave untrained
        let padding = counted.padded_total - counted.total;
        let missing = trained - counted.trained as f64;
        prop_assert!(missing >= 0.0 && missing <= padding as f64, "{missing} of {padding}");
    }

    #[test]
    fn the_operators_run_the_counted_arithmetic(mut model in any_shape(), sequence in 1..64_u64) {
        model.lora = None;
        let graph = model.graph(&training(sequence, true, false));
        let walked = 3.0 * graph.arithmetic(sequence).total().value() / sequence as f64;
        close(model.flops_per_token(sequence, FlopConvention::Model).value(), walked);
    }

    #[test]
    fn every_operator_reads_an_earlier_one(model in any_shape(), flash: bool, dropout: bool) {
        for block in &model.graph(&training(32, flash, dropout)).blocks {
            for (index, operator) in block.operators.iter().enumerate() {
                prop_assert!(operator.input.is_none_or(|i| i < index), "{}", operator.name);
                prop_assert!(operator.saved.iter().all(|s| bytes(s).is_finite() && bytes(s) > 0.0));
            }
        }
    }

    #[test]
    fn any_numbers_are_read_or_refused(
        field in prop::sample::select(vec!["layers", "hidden", "heads", "kv_heads", "head_dim",
            "ffn", "vocab", "padded_vocab", "max_positions", "sliding_window", "frozen_layers"]),
        value in prop_oneof![any::<i64>().prop_map(Value::from), any::<f64>().prop_map(Value::from),
            (0..300_u64).prop_map(Value::from)],
    ) {
        let base = json!({"name": "m", "family": "decoder", "layers": 2, "hidden": 64, "heads": 4,
            "ffn": 96, "vocab": 100, "position": "rotary", "activation": "gelu", "norm": "rmsnorm",
            "attention_pattern": ["sliding"], "sliding_window": 8});
        let patch = json!({ field: value });
        match Transformer::from_json(&merged(base, &patch).to_string()) {
            Ok(model) => {
                let (all, _) = walked(&model.graph(&training(32, false, true)));
                close(all, model.parameters().padded_total as f64);
            }
            Err(error) => prop_assert!(error.to_string().contains(field), "{error}"),
        }
    }

    /// Of attention and dense layers alone, Megatron-Bridge's count of hybrids is that of other models.
    #[test]
    fn layers_that_no_convention_bends_are_counted_alike(
        letters in prop::collection::vec(prop::sample::select(vec!['*', '-']), 1..9),
        (groups, per_group, ffn) in (1..4_u64, 1..4_u64, 1..30_u64),
        sequence in 1..64_u64,
    ) {
        let heads = groups * per_group;
        let model = model(&json!({"name": "any", "family": "decoder", "layers": letters.len(),
            "layer_pattern": letters.iter().collect::<String>(), "hidden": 8 * heads,
            "heads": heads, "kv_heads": groups, "ffn": ffn, "vocab": 40, "position": "none",
            "norm": "rmsnorm", "activation": "relu2"}).to_string());
        let count = |convention| model.flops_per_token(sequence, convention).value();
        close(count(FlopConvention::ModelHybrid), count(FlopConvention::ModelCausal));
    }
}
