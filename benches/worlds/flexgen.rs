//! Which problem does the cost model of `FlexGen` pose for an OPT model on one T4?

use scalewright::memory::serving_blocks::Problem;

/// The machine as the catalog has it, and a model's layers as the paper counts them: products of
/// attention and feed-forward in fp16, without biases and norms.
pub(crate) fn problem(layers: u64, hidden: u64, heads: u64) -> Problem {
    let text = include_str!("../../python/scalewright/catalog/published/placement/flexgen.toml");
    let mut machine: serde_json::Map<String, serde_json::Value> = toml::from_str(text).unwrap();
    let (wide, inner) = (hidden as f64, 4.0 * hidden as f64);
    let layer = serde_json::json!({
        "hidden": hidden,
        "weights_bytes": 8.0 * wide * wide + 4.0 * wide * inner,
        "cache_bytes_per_token": 4.0 * wide,
        "state_bytes_per_token": 2.0 * wide,
        "inner_bytes_per_token": 2.0 * inner,
        "score_bytes_per_query_and_key": 2 * heads,
        "matmul_flops_per_token": 8.0 * wide * wide + 4.0 * wide * inner,
        "attention_flops_per_query_and_key": 4.0 * wide,
    });
    for (field, value) in [
        ("prompt", 512.into()),
        ("generated", 32.into()),
        ("layers", layers.into()),
        ("layer", layer),
    ] {
        machine.insert(field.to_owned(), value);
    }
    let text = serde_json::Value::from(machine).to_string();
    Problem::from_json(&text).unwrap()
}
