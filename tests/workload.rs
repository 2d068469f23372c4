//! Do models have the parameters, kept activations and operators that were published?

#![allow(clippy::unwrap_used)] // a model that cannot be read fails its test

use scalewright::workload::Transformer;
use scalewright::workload::{
    Block, BlockRole, Extent, Graph, Recompute, Region, Saved, SavedAs, Training,
};

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
    let weights = operators.flat_map(scalewright::workload::Operator::weights);
    weights.fold((0.0, 0.0), |(all, trained), w| {
        let n = w.elements();
        (all + n, trained + if w.trained { n } else { 0.0 })
    })
}

#[test]
fn checkpoints_have_their_totals() {
    let cases = [
        ("gpt2", gpt(12, 768, 12, 50_257, 1024), 124_439_808),
        ("gpt2-xl", gpt(48, 1600, 25, 50_257, 1024), 1_557_611_200),
        (
            "llama2-7b",
            llama([32, 4096, 32, 32, 11_008, 32_000], ""),
            6_738_415_616,
        ),
        (
            "llama2-70b",
            llama([80, 8192, 64, 8, 28_672, 32_000], ""),
            68_976_648_192,
        ),
        (
            "llama3-8b",
            llama([32, 4096, 32, 8, 14_336, 128_256], ""),
            8_030_261_248,
        ),
        (
            "llama3-70b",
            llama([80, 8192, 64, 8, 28_672, 128_256], ""),
            70_553_706_496,
        ),
        (
            "llama3-405b",
            llama([126, 16_384, 128, 8, 53_248, 128_256], ""),
            405_853_388_800,
        ),
    ];
    for (name, model, total) in cases {
        assert_eq!(model.parameters().total, total, "{name}");
    }
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
fn the_operators_hold_the_counted_weights() {
    for model in [
        gpt(3, 64, 4, 101, 32),
        llama([3, 64, 4, 2, 96, 100], r#","padded_vocab":128"#),
    ] {
        let counted = model.parameters();
        let (all, trained) = walked(&model.graph(&training(32, true, false)));
        close(all, counted.padded_total as f64);
        close(trained, counted.padded_total as f64);
    }
}
