//! What moving tokens to experts and back becomes on one rank.

use super::kernels::memory;
use super::lower::Lowering;
use super::program::Purpose;
use crate::collective::{Collective, Crossing};
use crate::operator_cost::Kernel;
use crate::units::{Bytes, Dtype, Seconds};
use crate::workload::{Extent, Operator, OperatorKind, Routed};

impl Lowering<'_> {
    /// Moves tokens to the slots of experts and back by products with a mask of tokens by slots, one
    /// per sequence (`BSM,BSEC->EBCM` and `EBCM,BSEC->BSM` of Lepikhin et al. 2020, `GShard`, algorithm 2):
    /// `2 s c h` flops, s tokens, c slots of all experts, h columns. On the way there the mask is a
    /// constant, on the way back it holds the router's weights and has a gradient.
    fn route_by_products(&mut self, operator: &Operator, slots: f64, columns: f64, forward: bool) {
        let back = matches!(operator.kind, OperatorKind::Route { back: true, .. });
        let batch = self.batch;
        let (tokens, slots) = (self.tokens_of(operator) / batch, slots / batch);
        let [rows, depth] = if back {
            [tokens, slots]
        } else {
            [slots, tokens]
        };
        let product = |m, n, k| self.matrix(self.wide, [batch, m, n, k]);
        let moved = product(rows, columns, depth);
        let gradient = product(depth, columns, rows);
        let of_mask = product(tokens, slots, columns);
        if forward {
            self.compute(true, operator, moved);
        } else {
            self.compute(false, operator, gradient);
            if back {
                self.compute(false, operator, of_mask);
            }
        }
    }

    /// Sorts tokens by expert and sends them there (or brings them back).
    pub(super) fn route(
        &mut self,
        operator: &Operator,
        width: &Extent,
        routed: &Routed,
        forward: bool,
    ) {
        let columns = width.columns();
        let copies = self.routed_tokens(operator, routed);
        let bytes = copies * columns * self.activation.bytes();
        let dispatch = matches!(operator.kind, OperatorKind::Route { back: false, .. });
        if self.training.software.experts.dispatch_products {
            self.route_by_products(operator, copies, columns, forward);
        } else {
            if self.sorts_received(operator, routed) {
                self.compute(forward, operator, memory(2.0 * bytes, 1.0));
            }
            let pass = usize::from(!forward);
            let loops = if dispatch {
                self.training.software.experts.stream_passes[pass]
            } else {
                0.0
            };
            let stream = self.tokens_of(operator) * columns * self.activation.bytes();
            let stream = stream * self.local_experts(operator, routed) * loops;
            let kernel = self.reorder(dispatch, pass, (bytes, stream));
            self.compute(forward, operator, kernel);
        }
        if dispatch {
            self.route_weights(operator, routed, copies, forward);
        }
        let mut wire = self.wire(Purpose::Expert, Collective::AllToAll, bytes, 0);
        // what one pass dispatches the other one combines
        let way = usize::from(dispatch != forward);
        wire.handling = self.training.software.experts.row_time[way] * self.rows(routed, copies);
        if self.training.software.experts.sends_once {
            let copies = top_k(routed);
            wire.crossing = Crossing::Once {
                copies,
                direct: self.direct(),
            };
        }
        self.communicate(forward, operator, wire);
    }

    /// Kernels that put rows of tokens, so many bytes, in the order of experts, or back in that of tokens, and bytes
    /// that they move beside them.
    fn reorder(&self, dispatch: bool, pass: usize, (bytes, beside): (f64, f64)) -> Kernel {
        let experts = &self.training.software.experts;
        let (passes, strided) = if dispatch {
            (
                experts.dispatch_passes[pass],
                experts.dispatch_strided[pass],
            )
        } else {
            (experts.combine_passes[pass], experts.combine_strided[pass])
        };
        // a kernel reads and writes; one more makes the order
        let launches = 1.0 + passes / 2.0;
        if strided <= 0.0 {
            return memory(passes * bytes + beside, launches);
        }
        Kernel::Strided {
            bytes: Bytes::new(passes * bytes + beside),
            launches,
            elements: bytes / self.activation.bytes() * strided,
            strided: Bytes::new(bytes * strided * 2.0), // read and written
        }
    }

    /// True where the library's kernels have a time of their own for each row, at the rate of links.
    fn direct(&self) -> bool {
        self.training.software.experts.row_time != [Seconds::ZERO; 2]
    }

    /// Rows that leave a rank: of a token's copies those for one rank are one (`Crossing::Once`), for ranks at random.
    fn rows(&self, routed: &Routed, copies: f64) -> f64 {
        if !self.training.software.experts.sends_once {
            return copies;
        }
        let (ranks, each) = (f64::from(self.mesh.expert.size), routed.top_k as f64);
        copies * ranks * (1.0 - (1.0 - 1.0 / ranks).powf(each)) / each
    }

    /// What goes with a dispatch: kernels that make its maps, and the weights of its tokens.
    fn route_weights(&mut self, operator: &Operator, routed: &Routed, copies: f64, forward: bool) {
        let kernels = self.training.software.experts.routing_kernels[usize::from(!forward)];
        if kernels > 0.0 {
            self.compute(forward, operator, memory(0.0, kernels));
        }
        let times = self.training.software.experts.selections;
        if times > 0.0 && forward {
            let scores = self.tokens_of(operator) * routed.experts as f64 * times;
            self.compute(true, operator, Kernel::Selection { scores });
        }
        if self.training.software.experts.sends_weights {
            let bytes = copies * Dtype::Fp32.bytes();
            let wire = self.wire(Purpose::Expert, Collective::AllToAll, bytes, 0);
            self.communicate(forward, operator, wire);
        }
        if self.training.software.experts.gathers_routing && forward {
            let ranks = f64::from(self.mesh.expert.size);
            let map = self.tokens_of(operator) * routed.experts as f64 * ranks;
            let wire = self.wire(Purpose::Expert, Collective::AllGather, map, 0);
            self.communicate(true, operator, wire);
            self.compute(true, operator, memory(map, 1.0));
        }
        if self.training.software.experts.sends_row_weights {
            let bytes = copies * self.local_experts(operator, routed) * Dtype::Fp32.bytes();
            let mut wire = self.wire(Purpose::Expert, Collective::AllToAll, bytes, 0);
            let copies = top_k(routed);
            wire.crossing = Crossing::Beside {
                copies,
                direct: self.direct(),
            };
            self.communicate(forward, operator, wire);
        }
    }

    /// True where tokens that arrive by rank are sorted by expert.
    fn sorts_received(&self, operator: &Operator, routed: &Routed) -> bool {
        let several = self.local_experts(operator, routed) > 1.0;
        self.training.software.experts.sorts_received && several && self.mesh.expert.size > 1
    }
}

/// Copies of each token.
fn top_k(routed: &Routed) -> u16 {
    u16::try_from(routed.top_k).unwrap_or(u16::MAX)
}
