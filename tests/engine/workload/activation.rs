//! Does each block run and keep what the papers say?

use crate::workload::measure::{bytes, close, kept, layer, walked};
use crate::workload::model::{gpt, llama, recent, t5, training};
use scalewright::workload::{BlockRole, Graph, OperatorKind, Region};
use serde_json::json;

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
