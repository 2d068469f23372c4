//! The kernels of an attention core on one rank, and what context ranks exchange for it.

use super::kernels::memory;
use super::lower::Lowering;
use super::program::Purpose;
use crate::collective::Collective;
use crate::operator_cost::Kernel;
use crate::units::{Bytes, Dtype};
use crate::workload::{Attention, Extent, Operator};

impl Lowering<'_> {
    /// Adds the kernels of an attention core and the collectives inside it.
    pub(super) fn attention(&mut self, operator: &Operator, core: &Attention, forward: bool) {
        let heads = self.local_heads(operator, core.heads);
        let kv_heads = self.local_heads(operator, core.kv_heads);
        let keys = self.key_positions(operator, core);
        if core.flash {
            self.cast_attention(operator, core, (heads, kv_heads), forward);
            // what hides under the attention kernel stands right before it
            self.gather_keys(operator, core, kv_heads, forward);
            let kernel = self.flash(operator, core, !forward);
            self.compute(forward, operator, kernel);
            self.merge_parts(operator, core, (heads, kv_heads), forward);
            if !forward {
                self.join_gradients(operator, core, (heads, kv_heads));
            }
        } else {
            self.gather_keys(operator, core, kv_heads, forward);
            self.plain_attention(operator, core, heads * self.batch, keys, forward);
        }
        let [_, in_front] = self.keys_bytes(operator, core);
        if !forward && in_front > 0.0 {
            // gradients of the keys and values in front are added to those of later slices
            self.compute(false, operator, memory(3.0 * in_front, 2.0));
        }
    }

    /// Puts the gradients of queries, keys and values side by side where the software does so.
    fn join_gradients(&mut self, operator: &Operator, core: &Attention, heads: (f64, f64)) {
        let passes = self.training.software.layer.joined;
        if passes > 0.0 && core.memory_sequence.is_none() {
            let values = heads.1 * (core.query_dim + core.value_dim) as f64;
            let columns = heads.0 * core.query_dim as f64 + values;
            let bytes = self.batch * self.positions(operator) * columns * self.activation.bytes();
            self.compute(false, operator, memory(passes * bytes, 1.0));
        }
    }

    pub(super) fn local_heads(&self, operator: &Operator, heads: u64) -> f64 {
        let extent = Extent::new(crate::workload::Dim::Heads, heads);
        self.sharding.local(operator.region, &extent)
    }

    pub(super) fn key_positions(&self, operator: &Operator, core: &Attention) -> f64 {
        let keys = core.memory_sequence.or(operator.positions);
        keys.unwrap_or(self.training.sequence) as f64 + self.keys_in_front(core)
    }

    /// Keys that a query reads on average, all in front of the slice and its own as the mask says; and those that a
    /// window hides.
    fn visible(&self, operator: &Operator, core: &Attention) -> (f64, f64) {
        let keys = self.key_positions(operator, core);
        let in_front = self.keys_in_front(core);
        let visible = in_front + core.visible(keys - in_front);
        let Some(window) = core.window else {
            return (visible, 0.0);
        };
        let visible = visible.min(window as f64);
        let open = in_front + core.unhidden(keys - in_front);
        (visible, (open - visible).max(0.0))
    }

    fn flash(&self, operator: &Operator, core: &Attention, backward: bool) -> Kernel {
        let keys = self.key_positions(operator, core);
        let (visible, hidden) = self.visible(operator, core);
        Kernel::Attention {
            batch_heads: self.batch * self.local_heads(operator, core.heads),
            batch_kv_heads: self.batch * self.local_heads(operator, core.kv_heads),
            queries: self.positions(operator),
            visible,
            longest: keys.min(self.longest(core) * visible),
            hidden,
            keys,
            query_dim: core.query_dim as f64,
            value_dim: core.value_dim as f64,
            dtype: self.attention_format(),
            backward,
        }
    }

    /// Keys that the last block of queries waits for, over those that a query sees on average: twice under a causal mask.
    ///
    /// Round a ring each part is a kernel of its own. Balanced, half of the parts bring all queries to half of the keys
    /// and half of them half of the queries to all (`AttnFuncWithCP` of Transformer Engine's attention.py), each without
    /// a mask but the first: `P / 2 (L + L / 2)` for `P L / 2` visible keys, P: context ranks, L: keys of one.
    fn longest(&self, core: &Attention) -> f64 {
        let ring = self.mesh.context.size > 1 && !self.training.software.context.gathers_keys_first;
        if ring && core.causal { 1.5 } else { 2.0 }
    }

    /// The format of the products of fused attention.
    fn attention_format(&self) -> Dtype {
        let own = self.training.software.layer.attention_format;
        own.unwrap_or(self.wide)
    }

    /// Casts what a fused kernel multiplies in a narrower format than activations are kept in: queries, keys and
    /// values before the forward pass, the gradient of the context before the backward one. Block scales lie along
    /// the dim that a product sums over, so that each is written twice, and for mxfp8 heads are brought before positions
    /// first, which reads and writes once more (Transformer Engine, `mxfp8` quantizer and pull request 2719).
    fn cast_attention(
        &mut self,
        operator: &Operator,
        core: &Attention,
        (heads, kv_heads): (f64, f64),
        forward: bool,
    ) {
        let format = self.attention_format();
        if format.bytes() >= self.activation.bytes() {
            return;
        }
        let [width, value] = [core.query_dim as f64, core.value_dim as f64];
        let (rows, launches) = if forward {
            let own = self.positions(operator);
            let keys = core.memory_sequence.map_or(own, |keys| keys as f64);
            (own * heads * width + keys * kv_heads * (width + value), 3.0)
        } else {
            (self.positions(operator) * heads * value, 1.0)
        };
        let turned = if format == Dtype::Mxfp8 {
            2.0 * self.activation.bytes()
        } else {
            0.0
        };
        let kernels = if self.reads_for_scale(format) || turned > 0.0 {
            2.0 * launches
        } else {
            launches
        };
        let twice = !self.training.forward_only;
        let moved = self.cast_bytes(format, twice) + turned;
        let cast = Kernel::Cast {
            bytes: Bytes::new(self.batch * rows * moved),
            launches: kernels,
        };
        self.compute(forward, operator, cast);
    }

    /// Context parallelism brings all keys and values past each rank; ring attention does so under
    /// the attention kernel (Liu et al. 2023), and sends their gradients round with them in the backward pass. A gather in
    /// front of the kernel (`gathers_keys_first`) hides under nothing, nor does the sum of gradients behind it.
    fn gather_keys(&mut self, operator: &Operator, core: &Attention, kv_heads: f64, forward: bool) {
        if self.mesh.context.size < 2 {
            return;
        }
        let width = kv_heads * (core.query_dim + core.value_dim) as f64;
        let bytes =
            self.batch * self.key_positions(operator, core) * width * self.activation.bytes();
        if core.flash && !self.training.software.context.gathers_keys_first {
            let round = if forward { bytes } else { 2.0 * bytes };
            let ring = self.wire(Purpose::Context, Collective::AllGather, round, 1);
            self.communicate(forward, operator, ring);
            return;
        }
        let gather = self.wire(Purpose::Context, Collective::AllGather, bytes, 0);
        self.communicate(forward, operator, gather);
        if !forward {
            let scatter = self.wire(Purpose::Context, Collective::ReduceScatter, bytes, 0);
            self.communicate(false, operator, scatter);
        }
    }

    /// Each part of keys and values that comes round a ring gives results of its own, which are merged with
    /// those of the parts before (Liu et al. 2023, algorithm 1): `P (q Q + k K)` bytes, P: context ranks; Q, K:
    /// bytes of a rank's queries and of its keys and values; q, k: passes of the software (`software.context.ring`,
    /// `ring_keys`), a kernel for each part at least.
    fn merge_parts(
        &mut self,
        operator: &Operator,
        core: &Attention,
        (heads, kv_heads): (f64, f64),
        forward: bool,
    ) {
        let software = &self.training.software;
        if self.mesh.context.size < 2 || !core.flash || software.context.gathers_keys_first {
            return;
        }
        let way = usize::from(!forward);
        let keys =
            kv_heads * (core.query_dim + core.value_dim) as f64 * software.context.ring_keys[way];
        let columns = heads * core.query_dim as f64 * software.context.ring[way] + keys;
        let parts = f64::from(self.mesh.context.size);
        let row = self.batch * self.positions(operator) * self.activation.bytes();
        if columns > 0.0 {
            self.compute(forward, operator, memory(parts * row * columns, parts));
        }
    }

    /// Scores, softmax and context as separate kernels with the scores in memory
    /// (Korthikanti et al. 2022, figure 2).
    fn plain_attention(
        &mut self,
        operator: &Operator,
        core: &Attention,
        batch: f64,
        keys: f64,
        forward: bool,
    ) {
        let (queries, width) = (self.positions(operator), core.query_dim as f64);
        let value = core.value_dim as f64;
        let scores = batch * queries * keys;
        let element = self.activation.bytes();
        let dtype = self.wide;
        let product = move |m, n, k| Kernel::Matmul {
            batch,
            m,
            n,
            k,
            dtype,
            output_bytes: dtype.bytes(),
            transposed: false,
            added: false,
            in_turn: false,
        };
        let copy = |columns: f64| 2.0 * batch * queries * columns * element;
        let heads = self.training.software.layer.heads[usize::from(!forward)] / 2.0;
        let ordered = copy(2.0 * width + value) * heads;
        let [over_forward, over_backward] = self.score_passes(core);
        // dropout: read, write, one-byte mask
        let dropout = if core.dropout {
            2.0 * element + 1.0
        } else {
            0.0
        };
        if ordered > 0.0 {
            self.compute(forward, operator, memory(ordered, 3.0));
        }
        if forward {
            self.compute(true, operator, product(queries, keys, width));
            self.compute(
                true,
                operator,
                memory(scores * (over_forward * element + dropout), 2.0),
            );
            self.compute(true, operator, product(queries, value, keys));
            // the context goes back to token order: read and write
            self.compute(true, operator, memory(copy(value), 1.0));
        } else {
            for (m, n, k) in [
                (queries, keys, value),
                (keys, value, queries),
                (queries, width, keys),
                (keys, width, queries),
            ] {
                self.compute(false, operator, product(m, n, k));
            }
            self.compute(
                false,
                operator,
                memory(scores * (over_backward * element + dropout), 2.0),
            );
            // the context's gradient changes order, those of queries, keys and values are joined
            let joined = copy(value) + copy(2.0 * width + value);
            self.compute(false, operator, memory(joined, 2.0));
        }
    }

    /// Passes over all scores, less what a causal mask spares.
    fn score_passes(&self, core: &Attention) -> [f64; 2] {
        let software = &self.training.software;
        let [forward, backward] = software.layer.scores;
        let [spared, spared_backward] = software.layer.scores_spared;
        if core.causal {
            let left = [forward - spared, backward - spared_backward];
            return left.map(|passes| passes.max(0.0));
        }
        [forward, backward]
    }
}
