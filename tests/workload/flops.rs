//! Are FLOPs counted as each convention prints them?

use crate::measure::close;
use crate::model::gpt;
use scalewright::workload::{FlopConvention, gpt_hardware_flops, gpt_model_flops};

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
