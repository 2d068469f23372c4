//! Do models have the parameters, kept activations and operators that were published?

#![allow(clippy::unwrap_used)] // a model that cannot be read fails its test

use proptest::prelude::*;
use scalewright::workload::transformer::{ExpertLoad, Transformer};
use scalewright::workload::{
    Block, BlockRole, Extent, FlopConvention, Graph, Operator, OperatorKind, Recompute, Region,
    Saved, SavedAs, Training, gpt_hardware_flops, gpt_model_flops,
};
use serde_json::{Value, json};

fn model(text: &str) -> Transformer {
    Transformer::from_json(text).unwrap()
}

/// A decoder of the GPT family: learned positions, biases, GELU, tied table.
fn gpt(layers: u64, hidden: u64, heads: u64, vocab: u64, positions: u64) -> Transformer {
    model(&format!(
        r#"{{"name":"gpt","family":"decoder","layers":{layers},"hidden":{hidden},"heads":{heads},
        "ffn":{},"vocab":{vocab},"max_positions":{positions},"position":"learned",
        "activation":"gelu","norm":"layernorm","tied_embeddings":true,"qkv_bias":true,
        "output_bias":true,"ffn_bias":true}}"#,
        4 * hidden
    ))
}

/// A decoder with rotary positions, SwiGLU and root-mean-square norms; `more` holds further fields.
fn llama(sizes: [u64; 6], more: &str) -> Transformer {
    let [layers, hidden, heads, kv_heads, ffn, vocab] = sizes;
    model(&format!(
        r#"{{"name":"llama","family":"decoder","layers":{layers},"hidden":{hidden},
        "heads":{heads},"kv_heads":{kv_heads},"ffn":{ffn},"vocab":{vocab},"position":"rotary",
        "activation":"swiglu","norm":"rmsnorm"{more}}}"#
    ))
}

fn training(sequence: u64, flash_attention: bool, dropout: bool) -> Training {
    let text = format!(
        r#"{{"global_batch":8,"sequence":{sequence},"flash_attention":{flash_attention},
        "dropout":{dropout}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

/// Bytes per position of one tensor, its tokens counted for a 16-bit job.
fn bytes(saved: &Saved) -> f64 {
    let size = match saved.stored {
        SavedAs::Activation => 2.0,
        SavedAs::Mask => 1.0,
        SavedAs::Fp32 => 4.0,
    };
    size * saved.shape.iter().map(Extent::columns).product::<f64>()
}

/// Kept bytes per position: in the residual region, and in all others.
fn kept(block: &Block, selective: bool) -> (f64, f64) {
    let mut sum = (0.0, 0.0);
    for operator in &block.operators {
        if selective && operator.recompute == Recompute::Selective {
            continue;
        }
        for saved in &operator.saved {
            if saved.region == Region::Residual {
                sum.0 += bytes(saved);
            } else {
                sum.1 += bytes(saved);
            }
        }
    }
    sum
}

fn layer(graph: &Graph) -> &Block {
    &graph.blocks[graph.order[1]]
}

fn close(got: f64, wanted: f64) {
    assert!(
        (got - wanted).abs() <= 1e-12 * wanted.abs(),
        "{got} is not {wanted}"
    );
}

fn walked(graph: &Graph) -> (f64, f64) {
    let operators = graph.order.iter().flat_map(|&b| &graph.blocks[b].operators);
    let weights = operators.flat_map(Operator::weights);
    weights.fold((0.0, 0.0), |(all, trained), w| {
        let n = w.elements();
        (all + n, trained + if w.trained { n } else { 0.0 })
    })
}

/// A tied layernorm decoder or encoder with biases everywhere; `more` overrides and adds fields.
fn biased(more: &Value) -> Transformer {
    let base = json!({"name": "biased", "family": "decoder", "position": "none",
        "activation": "gelu", "norm": "layernorm", "tied_embeddings": true, "qkv_bias": true,
        "output_bias": true, "ffn_bias": true});
    model(&merged(base, more).to_string())
}

/// A decoder as most recent ones are; `more` overrides and adds fields.
fn recent(more: &Value) -> Transformer {
    let base = json!({"name": "recent", "family": "decoder", "position": "rotary",
        "activation": "swiglu", "norm": "rmsnorm"});
    model(&merged(base, more).to_string())
}

fn merged(mut base: Value, more: &Value) -> Value {
    let fields = base.as_object_mut().unwrap();
    for (name, value) in more.as_object().unwrap() {
        fields.insert(name.clone(), value.clone());
    }
    base
}

fn deepseek(
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

fn t5(heads: u64, ffn: u64) -> Transformer {
    model(
        &json!({"name": "t5", "family": "encoder_decoder", "layers": 24, "encoder_layers": 24,
        "hidden": 1024, "heads": heads, "head_dim": 128, "ffn": ffn, "vocab": 32_128,
        "position": "relative", "activation": "relu", "norm": "rmsnorm",
        "tied_embeddings": true})
        .to_string(),
    )
}

#[test]
fn gpt_and_llama_checkpoints_have_their_totals() {
    let cases = [
        (gpt(12, 768, 12, 50_257, 1024), 124_439_808),
        (gpt(48, 1600, 25, 50_257, 1024), 1_557_611_200),
        (llama([32, 4096, 32, 32, 11_008, 32_000], ""), 6_738_415_616),
        (llama([80, 8192, 64, 8, 28_672, 32_000], ""), 68_976_648_192),
        (llama([32, 4096, 32, 8, 14_336, 128_256], ""), 8_030_261_248),
        (
            llama([80, 8192, 64, 8, 28_672, 128_256], ""),
            70_553_706_496,
        ),
        (
            llama([126, 16_384, 128, 8, 53_248, 128_256], ""),
            405_853_388_800,
        ),
        (
            llama([28, 3584, 28, 4, 18_944, 152_064], r#","qkv_bias":true"#),
            7_615_616_512,
        ),
        (
            llama(
                [36, 4096, 32, 8, 12_288, 151_936],
                r#","qk_norm":true,"head_dim":128"#,
            ),
            8_190_735_360,
        ),
    ];
    for (model, total) in cases {
        assert_eq!(model.parameters().total, total, "{model:?}");
    }
}

#[test]
fn other_dense_checkpoints_have_their_totals() {
    let opt = json!({"layers": 32, "hidden": 4096, "heads": 32, "ffn": 16_384, "vocab": 50_272,
        "position": "learned", "max_positions": 2050, "activation": "relu"});
    let bloom = json!({"layers": 70, "hidden": 14_336, "heads": 112, "ffn": 57_344,
        "vocab": 250_880, "position": "alibi", "embedding_norm": true});
    let bert = json!({"family": "encoder", "layers": 24, "hidden": 1024, "heads": 16,
        "ffn": 4096, "vocab": 30_522, "position": "learned", "max_positions": 512, "segments": 2,
        "embedding_norm": true, "final_norm": false, "extra_parameters": {"pooler": 1_049_600}});
    let gemma = json!({"layers": 28, "hidden": 3072, "heads": 16, "head_dim": 256, "ffn": 24_576,
        "vocab": 256_000, "activation": "geglu", "tied_embeddings": true});
    let gemma2 = json!({"layers": 42, "hidden": 3584, "heads": 16, "kv_heads": 8, "head_dim": 256,
        "ffn": 14_336, "vocab": 256_000, "activation": "geglu", "tied_embeddings": true,
        "post_norms": true, "attention_pattern": ["sliding", "full"], "sliding_window": 4096});
    let palm = json!({"layers": 118, "hidden": 18_432, "heads": 48, "kv_heads": 1,
        "head_dim": 256, "ffn": 73_728, "vocab": 256_000, "tied_embeddings": true,
        "parallel_block": true});
    let cases = [
        (biased(&opt), 6_658_473_984),
        (biased(&bloom), 176_247_271_424),
        (biased(&bert), 335_141_888),
        (recent(&gemma), 8_537_680_896),
        (recent(&gemma2), 9_241_705_984),
        (recent(&palm), 540_356_474_880),
        (t5(32, 16_384), 2_851_598_336),
        (t5(128, 65_536), 11_307_321_344),
    ];
    for (model, total) in cases {
        assert_eq!(model.parameters().total, total, "{model:?}");
    }
}

#[test]
fn sparse_checkpoints_have_their_totals() {
    let mixtral = |layers: u64, hidden: u64, heads: u64, ffn: u64, vocab: u64| {
        recent(
            &json!({"layers": layers, "hidden": hidden, "heads": heads, "kv_heads": 8,
            "ffn": ffn, "vocab": vocab,
            "experts": {"experts": 8, "top_k": 2, "expert_ffn": ffn}}),
        )
    };
    let qwen3 = json!({"layers": 48, "hidden": 2048, "heads": 32, "kv_heads": 4, "head_dim": 128,
        "ffn": 6144, "vocab": 151_936, "qk_norm": true,
        "experts": {"experts": 128, "top_k": 8, "expert_ffn": 768}});
    let qwen_moe = json!({"layers": 24, "hidden": 2048, "heads": 16, "ffn": 5632,
        "vocab": 151_936, "qkv_bias": true, "experts": {"experts": 60, "top_k": 4,
            "expert_ffn": 1408, "shared_ffn": 5632, "shared_gate": true}});
    let v2 = json!({"dense": 12_288, "mixture": {"experts": 160, "top_k": 6, "expert_ffn": 1536,
        "shared_ffn": 3072, "first_dense_layers": 1}});
    let v3 = json!({"dense": 18_432, "mixture": {"experts": 256, "top_k": 8, "expert_ffn": 2048,
        "shared_ffn": 2048, "first_dense_layers": 3, "router_bias": true}});
    let cases = [
        (mixtral(32, 4096, 32, 14_336, 32_000), 46_702_792_704),
        // the instruction-tuned checkpoint; the base has 32,000 vocabulary entries
        (mixtral(56, 6144, 48, 16_384, 32_768), 140_630_071_296),
        (mixtral(56, 6144, 48, 16_384, 32_000), 140_620_634_112),
        (recent(&qwen3), 30_532_122_624),
        (recent(&qwen_moe), 14_315_784_192),
        (
            deepseek(60, 5120, 102_400, Some(1536), &v2),
            235_741_434_880,
        ),
        (
            deepseek(61, 7168, 129_280, Some(1536), &v3),
            671_026_419_200,
        ),
    ];
    for (model, total) in cases {
        assert_eq!(model.parameters().total, total, "{model:?}");
    }
}

#[test]
fn papers_have_their_printed_digits() {
    // Narayanan et al. 2021, table 1: padded to 51,200 entries, 2,048 positions
    for (layers, hidden, heads, printed) in [
        (24, 2304, 24, 1.7),
        (30, 3072, 32, 3.6),
        (36, 4096, 32, 7.5),
        (40, 6144, 48, 18.4),
        (48, 8192, 64, 39.1),
        (60, 10_240, 80, 76.1),
        (80, 12_288, 96, 145.6),
        (96, 16_384, 128, 310.1),
        (105, 20_480, 128, 529.6),
        (128, 25_600, 160, 1008.0),
    ] {
        let total = gpt(layers, hidden, heads, 51_200, 2048).parameters().total;
        let digits = (total as f64 / 1e8).round() / 10.0;
        assert!((digits - printed).abs() < 1e-9, "{printed}: {total}");
    }
}

#[test]
fn active_parameters_leave_out_idle_experts() {
    let mixtral = recent(
        &json!({"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8,
        "ffn": 14_336, "vocab": 32_000,
        "experts": {"experts": 8, "top_k": 2, "expert_ffn": 14_336}}),
    );
    // Jiang et al. 2024, section 2: 47B, 13B active
    assert_eq!(mixtral.parameters().active_per_token, 12_879_925_248);
    let dense = gpt(12, 768, 12, 50_257, 1024).parameters();
    assert_eq!(dense.active_per_token, dense.total);
}

#[test]
fn padding_adds_whole_rows() {
    let padded = llama([2, 64, 4, 2, 96, 100], r#","padded_vocab":128"#);
    let counted = padded.parameters();
    assert_eq!(counted.padded_total - counted.total, 2 * 28 * 64);
}

#[test]
fn a_layer_keeps_what_korthikanti_printed() {
    let (s, h, a) = (2048.0, 12_288.0, 96.0);
    let gpt3 = gpt(96, 12_288, 96, 50_257, 2048);
    let graph = gpt3.graph(&training(2048, false, true));
    // equation 1: s b h (34 + 5 a s / h)
    let (residual, inner) = kept(layer(&graph), false);
    close(residual + inner, h * (34.0 + 5.0 * a * s / h));
    // equation 2: s b h (10 + 24/t + 5 a s / (h t))
    close(residual, h * 10.0);
    close(inner, h * (24.0 + 5.0 * a * s / h));
    // equation 6: selective recomputation leaves 34 s b h
    let (residual, inner) = kept(layer(&graph), true);
    close(residual + inner, h * 34.0);
}

#[test]
fn embedding_and_head_keep_what_korthikanti_printed() {
    let gpt3 = gpt(96, 12_288, 96, 50_257, 2048);
    let graph = gpt3.graph(&training(2048, false, true));
    let (embedding, none) = kept(&graph.blocks[0], false);
    close(embedding, 12_288.0);
    close(none + 1.0, 1.0);
    let (norm_and_input, logits) = kept(graph.blocks.last().unwrap(), false);
    close(norm_and_input, 4.0 * 12_288.0);
    close(logits, 4.0 * 50_257.0);
}

#[test]
fn a_dense_layer_has_its_operators_in_order() {
    let graph = gpt(2, 64, 4, 100, 32).graph(&training(32, true, false));
    let names: Vec<&str> = layer(&graph).operators.iter().map(|o| o.name).collect();
    let wanted = [
        "attention_norm",
        "qkv",
        "core",
        "out",
        "add",
        "feed_forward_norm",
        "up",
        "activation",
        "down",
        "add",
    ];
    assert_eq!(names, wanted);
    assert_eq!(graph.order, [0, 1, 1, 2]);
    assert_eq!(graph.layers(), 2);
    assert_eq!(graph.blocks[0].role, BlockRole::Embedding);
    assert_eq!(graph.blocks[2].role, BlockRole::Head);
}

#[test]
fn flash_attention_keeps_a_statistic_per_head_and_no_scores() {
    let (h, a) = (1024.0, 16.0);
    let graph = gpt(2, 1024, 16, 100, 512).graph(&training(512, true, false));
    let (residual, inner) = kept(layer(&graph), false);
    close(residual, h * 8.0);
    close(inner, h * 24.0 + 4.0 * a);
}

#[test]
fn a_gated_grouped_layer_keeps_both_halves_and_no_masks() {
    let (h, heads, kv_heads, width, f) = (64.0, 8.0, 2.0, 16.0, 96.0);
    let model = llama([2, 64, 8, 2, 96, 100], r#","head_dim":16"#);
    let (residual, inner) = kept(layer(&model.graph(&training(32, true, false))), false);
    close(residual, 8.0 * h);
    let attention = 4.0 * heads * width + 4.0 * kv_heads * width + 4.0 * heads;
    close(inner, attention + 6.0 * f);
}

#[test]
fn plain_scores_keep_all_positions_of_a_window() {
    let model = llama(
        [2, 64, 4, 4, 96, 100],
        r#","attention_pattern":["sliding","full"],"sliding_window":8"#,
    );
    let graph = model.graph(&training(32, false, false));
    assert_eq!(graph.order, [0, 1, 2, 3]);
    let windows: Vec<Option<u64>> = graph
        .blocks
        .iter()
        .flat_map(|b| &b.operators)
        .filter_map(|o| match &o.kind {
            OperatorKind::Attention(core) => Some(core.window),
            _ => None,
        })
        .collect();
    assert_eq!(windows, [Some(8), None]);
    close(
        kept(&graph.blocks[1], false).1,
        kept(&graph.blocks[2], false).1,
    );
}

#[test]
fn routed_widths_count_every_copy() {
    let (h, f, top_k) = (64.0, 48.0, 3.0);
    let model = recent(
        &json!({"layers": 1, "hidden": 64, "heads": 4, "ffn": 0, "vocab": 100,
        "experts": {"experts": 8, "top_k": 3, "expert_ffn": 48}}),
    );
    let graph = model.graph(&training(32, true, false));
    let experts: f64 = layer(&graph)
        .operators
        .iter()
        .flat_map(|o| &o.saved)
        .filter(|s| s.region == Region::Experts)
        .map(bytes)
        .sum();
    // input copies, two halves, their product
    close(experts, 2.0 * top_k * (h + 2.0 * f + f));
}

#[test]
fn frozen_layers_keep_nothing_and_pass_no_gradient() {
    let mut model = gpt(4, 64, 4, 100, 32);
    model.frozen_layers = 3;
    model.check().unwrap();
    let graph = model.graph(&training(32, true, false));
    assert_eq!(graph.order, [0, 1, 1, 1, 2, 3]);
    for index in [0, 1] {
        assert!(!graph.blocks[index].backward);
        close(kept(&graph.blocks[index], false).0 + 1.0, 1.0);
    }
    assert!(graph.blocks[2].backward);
}

#[test]
fn forward_only_keeps_nothing_and_trains_nothing() {
    let mut job = training(32, true, true);
    job.forward_only = true;
    let graph = gpt(2, 64, 4, 100, 32).graph(&job);
    assert!(graph.blocks.iter().all(|b| !b.backward));
    assert!(
        graph
            .blocks
            .iter()
            .flat_map(|b| &b.operators)
            .all(|o| o.saved.is_empty())
    );
    close(walked(&graph).1 + 1.0, 1.0);
}

#[test]
fn adapters_keep_less_than_full_training() {
    let full = llama([2, 64, 4, 4, 96, 100], "");
    let adapted = llama(
        [2, 64, 4, 4, 96, 100],
        r#","lora":{"rank":4,"targets":["query","value"]}"#,
    );
    let job = training(32, true, false);
    let (full_kept, adapted_kept) = (full.graph(&job), adapted.graph(&job));
    let sum = |g: &Graph| kept(layer(g), false).0 + kept(layer(g), false).1;
    assert!(sum(&adapted_kept) < sum(&full_kept));
    // two layers, two targets, rank 4 on 64 x 64
    assert_eq!(adapted.parameters().trained, 2 * 2 * 4 * 128);
}

#[test]
fn an_encoder_decoder_runs_its_encoder_over_its_own_positions() {
    let mut model = t5(8, 256);
    model.encoder_sequence = Some(96);
    let graph = model.graph(&training(32, true, false));
    let [encoder, decoder] = [&graph.blocks[1], &graph.blocks[2]];
    assert_eq!(
        (encoder.name.as_str(), decoder.name.as_str()),
        ("encoder_dense_layer", "decoder_dense_layer")
    );
    assert!(encoder.operators.iter().all(|o| o.positions == Some(96)));
    let memory: Vec<&str> = decoder
        .operators
        .iter()
        .filter(|o| o.positions == Some(96))
        .map(|o| o.name)
        .collect();
    assert_eq!(memory, ["cross_kv"]);
}

#[test]
fn the_gpt_family_counts_flops_as_printed() {
    let model = gpt(96, 12_288, 96, 51_200, 2048);
    let per_token = |c| model.flops_per_token(2048, c).value();
    let (batch, s, l, h, v) = (1536.0, 2048.0, 96.0, 12_288.0, 51_200.0);
    let tokens = batch * s;
    let wanted = 72.0 * tokens * l * h * h * (1.0 + s / (6.0 * h) + v / (12.0 * l * h));
    close(gpt_model_flops(batch, s, l, h, v).value(), wanted);
    close(per_token(FlopConvention::Model) * tokens, wanted);
    let wanted = 96.0 * tokens * l * h * h * (1.0 + s / (6.0 * h) + v / (16.0 * l * h));
    close(gpt_hardware_flops(batch, s, l, h, v).value(), wanted);
    close(per_token(FlopConvention::Hardware) * tokens, wanted);
    // halving attention takes half of 72 l h^2 s / (6 h)
    let attention = 12.0 * l * h * s;
    let causal = per_token(FlopConvention::Model) - attention / 2.0;
    close(per_token(FlopConvention::ModelCausal), causal);
    let total = model.parameters().total as f64;
    close(per_token(FlopConvention::Palm), 6.0 * total + attention);
}

#[test]
fn expert_load_is_the_most_loaded_rank() {
    let skewed = ExpertLoad::Histogram {
        weights: vec![4.0, 2.0, 1.0, 1.0],
    };
    close(skewed.most_loaded(4, 1), 1.0);
    close(skewed.most_loaded(4, 2), 1.5);
    close(skewed.most_loaded(4, 4), 2.0);
    let law = ExpertLoad::PowerLaw { exponent: 1.0 };
    close(law.most_loaded(4, 4), 4.0 / (1.0 + 0.5 + 1.0 / 3.0 + 0.25));
    for ranks in [1, 2, 4, 8] {
        close(ExpertLoad::Balanced.most_loaded(8, ranks), 1.0);
    }
}

#[test]
fn capacity_drops_what_exceeds_it() {
    let model = recent(
        &json!({"layers": 1, "hidden": 64, "heads": 4, "ffn": 0, "vocab": 100,
        "experts": {"experts": 4, "top_k": 1, "expert_ffn": 48, "capacity_factor": 1.25,
            "expert_load": {"histogram": {"weights": [4, 2, 1, 1]}}}}),
    );
    let routed = model.experts.unwrap().routed();
    close(routed.imbalance, 1.25);
    close(routed.most_loaded(4), 1.25);
    // loads 1.25, 1, 0.5, 0.5 after dropping
    close(routed.most_loaded(1), 3.25 / 4.0);
}

/// A small valid model, and a patch that makes it invalid.
fn refusal(patch: &Value) -> String {
    let base = json!({"name": "m", "family": "decoder", "layers": 2, "hidden": 64, "heads": 4,
        "ffn": 96, "vocab": 100, "position": "rotary", "activation": "gelu", "norm": "rmsnorm"});
    Transformer::from_json(&base.to_string()).unwrap();
    Transformer::from_json(&merged(base, patch).to_string())
        .unwrap_err()
        .to_string()
}

#[test]
fn contradictions_name_their_field() {
    let moe = |field: &str, value: Value| {
        let mut mixture = json!({"experts": 8, "top_k": 2, "expert_ffn": 48});
        mixture.as_object_mut().unwrap().insert(field.into(), value);
        json!({ "experts": mixture })
    };
    let latent = json!({"kv_rank": 16, "nope_dim": 8, "rope_dim": 8, "value_dim": 8});
    for (patch, wanted) in [
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
        (json!({"position": "learned"}), "model.max_positions: got 0"),
        (json!({"encoder_layers": 2}), "model.encoder_layers: got 2"),
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
        (json!({"hiden": 64}), "unknown field `hiden`"),
    ] {
        let error = refusal(&patch);
        assert!(error.contains(wanted), "{patch}: {error}");
    }
}

#[test]
fn absurd_totals_are_refused() {
    let error = refusal(&json!({"layers": 60_000, "hidden": 16_000_000, "ffn": 16_000_000}));
    assert!(error.starts_with("model.parameters"), "{error}");
}

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
            _ => {}
        }
        model(&fields.to_string())
    })
}

proptest! {
    #[test]
    fn the_operators_hold_the_counted_weights(model in any_model(), flash: bool, dropout: bool) {
        let counted = model.parameters();
        let (all, trained) = walked(&model.graph(&training(32, flash, dropout)));
        close(all, counted.padded_total as f64);
        // padding belongs to tables, which adapters and frozen layers may leave untrained
        let padding = counted.padded_total - counted.total;
        let missing = trained - counted.trained as f64;
        prop_assert!(missing >= 0.0 && missing <= padding as f64, "{missing} of {padding}");
    }

    #[test]
    fn the_operators_run_the_counted_arithmetic(mut model in any_model(), sequence in 1..64_u64) {
        model.lora = None;
        let graph = model.graph(&training(sequence, true, false));
        let walked = 3.0 * graph.arithmetic(sequence).total().value() / sequence as f64;
        close(model.flops_per_token(sequence, FlopConvention::Model).value(), walked);
    }

    #[test]
    fn every_operator_reads_an_earlier_one(model in any_model(), flash: bool, dropout: bool) {
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
}
