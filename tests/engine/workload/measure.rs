//! How are kept bytes and weights of a graph summed, apart from the engine?

use scalewright::workload::{Block, Extent, Graph, Operator, Region, Saved, SavedAs};

/// Bytes per position of one tensor, its tokens counted for a 16-bit job.
pub(crate) fn bytes(saved: &Saved) -> f64 {
    let size = match saved.stored {
        SavedAs::Activation | SavedAs::Operand => 2.0,
        SavedAs::Byte => 1.0,
        SavedAs::Fp32 => 4.0,
    };
    size * saved.shape.iter().map(Extent::columns).product::<f64>()
}

/// Kept bytes per position: in the residual region, and in all others.
pub(crate) fn kept(block: &Block, selective: bool) -> (f64, f64) {
    let mut sum = (0.0, 0.0);
    for operator in &block.operators {
        if selective && operator.recompute.by_selective() {
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

pub(crate) fn layer(graph: &Graph) -> &Block {
    &graph.blocks[graph.order[1]]
}

pub(crate) fn close(got: f64, wanted: f64) {
    assert!(
        (got - wanted).abs() <= 1e-12 * wanted.abs(),
        "{got} is not {wanted}"
    );
}

pub(crate) fn walked(graph: &Graph) -> (f64, f64) {
    let operators = graph.order.iter().flat_map(|&b| &graph.blocks[b].operators);
    let weights = operators.flat_map(Operator::weights);
    weights.fold((0.0, 0.0), |(all, trained), w| {
        let n = w.elements();
        (all + n, trained + if w.trained { n } else { 0.0 })
    })
}
