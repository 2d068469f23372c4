//! Does an uneven choice of experts show as the most loaded rank?

use crate::workload::measure::close;
use crate::workload::model::recent;
use scalewright::workload::transformer::ExpertLoad;
use serde_json::json;

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
    let routed = model.experts.unwrap().routed(false);
    close(routed.imbalance, 1.25);
    close(routed.most_loaded(4), 1.25);
    // loads 1.25, 1, 0.5, 0.5 after dropping
    close(routed.most_loaded(1), 3.25 / 4.0);
}

#[test]
fn slots_of_a_fixed_capacity_are_computed_whether_tokens_fill_them_or_not() {
    let mut experts = recent(
        &json!({"layers": 1, "hidden": 64, "heads": 4, "ffn": 0, "vocab": 100,
        "experts": {"experts": 4, "top_k": 1, "expert_ffn": 48, "capacity_factor": 1.25}}),
    )
    .experts
    .unwrap();
    for ranks in [1, 2, 4] {
        close(experts.routed(true).most_loaded(ranks), 1.25);
        close(experts.routed(false).most_loaded(ranks), 1.0);
    }
    experts.capacity_factor = None;
    close(experts.routed(true).imbalance, 1.0);
}
