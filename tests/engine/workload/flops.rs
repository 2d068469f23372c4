//! Are FLOPs counted as each convention prints them?

use crate::workload::measure::close;
use crate::workload::model::{gpt, nemotron_3_nano, qwen3_5_35b, recent};
use scalewright::workload::{FlopConvention, gpt_hardware_flops, gpt_model_flops};
use serde_json::json;

#[test]
fn gates_and_windows_can_be_left_out_of_the_count() {
    let windowed = json!({"layers": 36, "hidden": 2880, "heads": 64, "kv_heads": 8, "head_dim": 64,
        "ffn": 2880, "vocab": 201_088, "attention_pattern": ["sliding", "full"],
        "sliding_window": 128, "experts": {"experts": 128, "top_k": 4, "expert_ffn": 2880}});
    let model = recent(&windowed);
    // printed of gpt-oss-120b, in GFLOP a token, to two digits behind the point
    for (sequence, printed) in [(4096, 27.16), (8192, 30.78)] {
        let counted = model.flops_per_token(sequence, FlopConvention::ModelUngated);
        let error = counted.value() / (printed * 1e9) - 1.0;
        // the router, 0.3%, is counted here and not there
        assert!((0.0..5e-3).contains(&error), "{sequence}: {counted:?}");
        assert!(model.flops_per_token(sequence, FlopConvention::ModelCausal) != counted);
    }
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
    let wanted = 96.0 * tokens * l * h * h * (1.0 + s / (8.0 * h));
    close(per_token(FlopConvention::HardwareLayers) * tokens, wanted);
    // halving attention takes half of 72 l h^2 s / (6 h)
    let attention = 12.0 * l * h * s;
    let causal = per_token(FlopConvention::Model) - attention / 2.0;
    close(per_token(FlopConvention::ModelCausal), causal);
    let causal = per_token(FlopConvention::Hardware) - attention * 4.0 / 6.0;
    close(per_token(FlopConvention::HardwareCausal), causal);
    let total = model.parameters().total as f64;
    close(per_token(FlopConvention::Palm), 6.0 * total + attention);
    close(per_token(FlopConvention::Parameters), 6.0 * total);
}

/// TFLOP/s times the time of a step of 40 layers of 1,536 columns, both as printed to three and four digits.
#[test]
fn layers_of_megatron_of_2020_count_as_printed() {
    let model = gpt(40, 1536, 16, 51_200, 1024);
    let step = model.flops_per_token(1024, FlopConvention::HardwareLayers) * (8.0 * 1024.0);
    assert!((step.value() / (62.4e12 * 1.288) - 1.0).abs() < 1e-3);
}

#[test]
fn hybrids_count_flops_as_printed() {
    let model = nemotron_3_nano();
    let (h, s) = (2688.0, 8192.0);
    // Megatron-Bridge, hybrid_flops: mixers of twice the stream's width, no router
    let attention = 4.0 * 32.0 * 128.0 * (h + h * 2.0 / 32.0 + s / 2.0);
    let inner = 2.0 * h;
    let mixer = 2.0 * h * (2.0 * inner + 2.0 * 8.0 * 128.0 + 64.0) + 2.0 * inner * h;
    let scan = 7.0 * inner * 128.0;
    let experts = 4.0 * h * (6.0 * 1856.0 + 3712.0);
    let head = 2.0 * h * 131_072.0;
    let forward = 6.0 * attention + 23.0 * (mixer + scan + experts) + head;
    let printed = model.flops_per_token(8192, FlopConvention::ModelHybrid);
    close(printed.value(), 3.0 * forward);
    // TFLOP/s over tokens/s of five machines, the first to four digits
    assert!((printed.value() / (845e12 / 37_888.0) - 1.0).abs() < 2e-3);
    // what is run: its own width, the router, a scan in chunks of 128
    let inner = 64.0 * 64.0;
    let mixer = 2.0 * h * (3.0 * inner + 2.0 * 8.0 * 128.0 + 64.0);
    let scan = 2.0 * (8.0 * 64.0 * 128.0 + 64.0 * 64.0 * 64.0 + 2.0 * inner * 128.0);
    let router = 2.0 * h * 128.0;
    let forward = 6.0 * attention + 23.0 * (mixer + scan + experts + router) + head;
    let run = model.flops_per_token(8192, FlopConvention::ModelCausal);
    close(run.value(), 3.0 * forward);
}

/// TFLOP/s times step over tokens, as NVIDIA-NeMo/Megatron-Bridge prints them of a run of Qwen3.5 35B-A3B
/// (`examples/model_verification_cards/qwen3.5-35b-a3b`), both to five digits.
#[test]
fn gated_delta_rules_count_as_printed() {
    let counted = qwen3_5_35b().flops_per_token(4096, FlopConvention::ModelHybrid);
    let printed = 185.560e12 * 31.751 * 16.0 / (1024.0 * 4096.0);
    assert!((counted.value() / printed - 1.0).abs() < 5e-4);
    // what is run has the router, chunks of 64 positions of which half are seen, and no convolution
    let (h, layers, heads) = (2048.0, 30.0, 32.0);
    let router = 41.0 * h * (256.0 + 1.0);
    let convolution = 4.0 * (2.0 * 16.0 + heads) * 128.0;
    let width = 128.0 * 128.0;
    let rule = heads * (32.0 * 5.0 * 128.0 + 3.0 * width) - heads * 4.0 * width;
    let more = 6.0 * (router + layers * (rule - convolution));
    let run = qwen3_5_35b().flops_per_token(4096, FlopConvention::ModelCausal);
    close(run.value(), counted.value() + more);
}
