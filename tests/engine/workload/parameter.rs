//! Do models have the totals of their checkpoints and papers?

use crate::workload::model::{
    biased, deepseek, gpt, llama, nemotron_3_nano, qwen3_5_27b, qwen3_5_35b, recent, t5,
};
use scalewright::workload::Transformer;
use serde_json::json;

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
fn a_further_prediction_holds_a_layer_a_projection_of_two_streams_and_three_norms() {
    let base = json!({"layers": 4, "hidden": 64, "heads": 4, "ffn": 96, "vocab": 100});
    let deeper = json!({"layers": 5, "hidden": 64, "heads": 4, "ffn": 96, "vocab": 100});
    let further = json!({"layers": 4, "hidden": 64, "heads": 4, "ffn": 96, "vocab": 100,
        "prediction_layers": 1});
    let total = |model: &serde_json::Value| recent(model).parameters().total;
    assert_eq!(total(&further), total(&deeper) + 2 * 64 * 64 + 3 * 64);
    assert!(total(&further) > total(&base));
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
fn hybrids_count_each_part_where_it_lies() {
    let counted = nemotron_3_nano().parameters();
    let [hidden, inner] = [2688_u64, 64 * 64];
    // gate, input, B, C and step; convolution of four taps and a bias; decay, skip, step bias; gated norm
    let mixed = inner + 2 * 8 * 128;
    let mixer = hidden * (inner + mixed + 64) + mixed * 5 + 3 * 64 + inner + inner * hidden;
    let attention = hidden * (32 + 2 * 2) * 128 + 32 * 128 * hidden;
    let expert = 2 * hidden * 1856;
    let beside = 2 * hidden * 3712 + 128 * hidden + 128;
    let layers = 23 * (mixer + 128 * expert + beside) + 6 * attention + 52 * hidden;
    assert_eq!(counted.layers, layers);
    assert_eq!(counted.total, layers + 2 * 131_072 * hidden + hidden);
    let idle = 23 * 122 * expert;
    assert_eq!(counted.active_per_token, counted.total - idle);
    // NVIDIA 2025: 31.6B in all, 3.6B active, 3.2B without the embedding
    assert_eq!(counted.total / 100_000_000, 315);
    let rounded = |count: u64| (count + 50_000_000) / 100_000_000;
    assert_eq!(rounded(counted.total), 316);
    assert_eq!(rounded(counted.active_per_token), 36);
    assert_eq!(rounded(counted.active_per_token - 131_072 * hidden), 32);
}

/// Without vision, what NVIDIA-NeMo/Megatron-Bridge counts (`examples/model_verification_cards`: qwen3.8-27b, of the shape of
/// Qwen3.5 27B, and qwen3.6-35b-a3b).
#[test]
fn gated_delta_rules_count_as_recorded() {
    let total = |model: Transformer| model.parameters().total;
    assert_eq!(total(qwen3_5_27b()), 27_781_427_952 - 460_730_096);
    assert_eq!(total(qwen3_5_35b()), 35_951_822_704 - 446_571_248);
}
