//! The bytes of one rank at its fullest moment, by tensor class.

use crate::solve::Lane;
use crate::units::{Bytes, Dtype};
use crate::workload::{Optimizer, Precision, Training};

/// Live activation memory over requested activation memory: what the caching allocator loses to
/// rounding and fragmentation.
pub const FRAGMENTATION: f64 = crate::defaults::allocator::FRAGMENTATION;

/// Bytes per element of a matrix that Muon keeps less than Adam: the second moment.
pub fn bytes_saved_by_muon(training: &Training) -> f64 {
    training.state.bytes()
}

/// Passes over a matrix that Muon makes beside its products, gradients' passes and the compute copy left out,
/// in the format of the state: weight decay (2), momentum (3), Nesterov's sum (3), norm and division by it (3),
/// scale (2), update (3), by kernels of their own (`step` of `OrthogonalizedOptimizer` and `newton_schulz` of
/// NVIDIA's Emerging-Optimizers).
const ORTHOGONALISED: f64 = 16.0;

/// What a rank holds, in elements and bytes, before number formats are applied.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Holdings {
    /// Trained weight elements replicated over the data ranks.
    pub dense: f64,
    /// Trained weight elements of routed experts.
    pub expert: f64,
    /// Weight elements that are not trained.
    pub frozen: f64,
    /// Weight elements of routed experts that are not trained.
    pub frozen_expert: f64,
    /// Of `frozen`, elements of embedding and head.
    pub frozen_ends: f64,
    /// Of `dense`, elements of embedding and head that are multiplied wide.
    pub wide_ends: f64,
    /// Ranks that share dense optimizer state, gradients or weights.
    pub dense_shards: f64,
    /// The same for experts.
    pub expert_shards: f64,
    /// ZeRO stage, 0 to 3.
    pub zero: u8,
    /// True where weights of products are cast before a gather (`Sharding::narrows`).
    pub narrow: bool,
    /// True where optimizer state and master weights lie in host memory.
    pub host_optimizer: bool,
    /// Weights of the largest layer, of the larger of embedding and head, and of both ends together; 0
    /// where no ranks share weights.
    pub layer: f64,
    /// See `layer`.
    pub end: f64,
    /// See `layer`.
    pub ends: f64,
    /// Virtual stages of the rank.
    pub chunks: f64,
    /// Gradients of one block that are not cut yet (ZeRO stages 2 and 3).
    pub unreduced: f64,
    /// Trained weights whose gradients are summed whole at one time, where the software reduces those of
    /// each virtual stage by themselves (`software.zero.reduces_by_stage`).
    pub summed: f64,
    /// Of `dense` and `expert`, elements of matrices that Muon orthogonalises.
    pub matrices: [f64; 2],
    /// True where no gradients are there when most activations are (`software.optimizer.frees_gradients`).
    pub frees_gradients: bool,
    /// Versions of the trained weights that are kept beside the newest (asynchronous schedules).
    pub older_versions: f64,
    /// Columns of the residual stream (for factored optimizer state).
    pub hidden: f64,
}

/// Bytes of a trained weight in a layer, and of one in embedding or head, that stay beside the master
/// weights, of a rank that holds them whole or its shard of them; `narrow` as in `Holdings`.
pub fn weight_bytes(training: &Training, zero: u8, shared: bool, narrow: bool) -> [f64; 2] {
    let software = &training.software;
    let (element, low) = (
        training.precision.activation().bytes(),
        training.precision.matmul().bytes(),
    );
    let cut = zero >= 3 && !software.zero.keeps_gathered;
    if shared
        && cut
        && software.zero.wide_shards
        && element < training.state.bytes()
        && !training.forward_only
    {
        return [0.0; 2];
    }
    if shared && zero >= 1 && !cut && narrow && low < element {
        return [low, element];
    }
    // scaled low-precision copies of the weights stay beside the wide ones
    let stay = low < element && !software.weights.recasts_weights;
    // embedding and head are multiplied wide
    [element + if stay { low } else { 0.0 }, element]
}

/// Bytes of a weight that is not trained, in a layer and in embedding or head. It never changes, so that it
/// is cast once, before the first step, and the wide one let go (`fp8_params` of `NeMo`'s recipes of adapters);
/// software that casts weights anew each time (`software.weights.recasts_weights`) holds wide ones.
pub fn frozen_bytes(training: &Training) -> [f64; 2] {
    let (element, low) = (
        training.precision.activation().bytes(),
        training.precision.matmul().bytes(),
    );
    let wide = training.software.weights.recasts_weights;
    [if wide { element } else { low.min(element) }, element]
}

impl Holdings {
    /// Elements of `elements` on a rank from a ZeRO stage on.
    fn share(&self, training: &Training, stage: u8, elements: f64, shards: f64) -> f64 {
        let whole = training.software.zero.keeps_gathered;
        if self.zero >= stage && !(whole && stage == 3) {
            elements / shards.max(1.0)
        } else {
            elements
        }
    }

    /// Trained elements on a rank from a ZeRO stage on.
    fn sharded_elements(&self, training: &Training, stage: u8) -> f64 {
        self.share(training, stage, self.dense, self.dense_shards)
            + self.share(training, stage, self.expert, self.expert_shards)
    }

    /// Elements of gradients that stay.
    fn gradients(&self, training: &Training, apart: bool) -> f64 {
        if apart {
            self.summed + self.sharded_elements(training, 1)
        } else {
            self.sharded_elements(training, 2)
        }
    }

    /// Bytes of a trained weight on the device, in a layer and in embedding or head; see `weight_bytes`. Shards
    /// that the host updates lie there, where they are the only ones (`software.zero.wide_shards`).
    fn weight_bytes(&self, training: &Training) -> [f64; 2] {
        let software = &training.software;
        let shared = self.dense_shards.max(self.expert_shards) > 1.0;
        let cut = self.zero >= 3 && !software.zero.keeps_gathered;
        if self.host_optimizer && software.zero.wide_shards && shared && cut {
            return [0.0; 2];
        }
        weight_bytes(training, self.zero, shared, self.narrow)
    }

    /// Bytes that an update on the device holds beside state and gradients.
    fn update_bytes(&self, training: &Training) -> f64 {
        if self.host_optimizer {
            return 0.0;
        }
        let lists = match training.optimizer {
            Optimizer::Adam | Optimizer::Muon => training.software.optimizer.update_held,
            Optimizer::Sgd | Optimizer::Adafactor => 0.0,
        };
        self.sharded_elements(training, 1) * lists * training.state.bytes()
    }

    /// Bytes of weights that are whole for a while (ZeRO stage 3), a layer and its neighbour, which may be
    /// embedding or head; and of the buffers that gathers fill.
    ///
    /// Where buffers are apart (FSDP2: `foreach_all_gather` and `foreach_all_gather_copy_out` of
    /// `torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py`), weights are copied out of them: those of a
    /// layer, `w`, and those of embedding and head, `e`, which belong to the root and stay from its forward to
    /// its backward pass. A buffer is free once the next one has been copied out, so that two lie there:
    /// `w + e + c (w + max(w, e))`, c the virtual stages, each with streams and so a pool of its own.
    fn gathered_bytes(&self, training: &Training) -> f64 {
        let software = &training.software;
        let element = training.precision.activation().bytes();
        let low = training.precision.matmul().bytes();
        let layer = self.layer
            * if self.narrow {
                low.min(element)
            } else {
                element
            };
        let [end, ends] = [self.end, self.ends].map(|elements| elements * element);
        let cut = self.zero >= 3 && !software.zero.keeps_gathered;
        let whole = match (cut, software.zero.gathers_apart) {
            (false, _) => 0.0,
            (true, false) => layer + layer.max(end),
            (true, true) => layer + ends,
        };
        if self.zero >= 1 && software.zero.gathers_apart && self.layer > 0.0 {
            return whole + self.chunks * (layer + layer.max(ends));
        }
        whole
    }
}

/// What passes leave and need, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct KeptActivations {
    /// Kept activations of all micro-batches in flight, those in host memory left out.
    pub activations: Bytes,
    /// Of these, what embedding, head and loss keep.
    pub ends: Bytes,
    /// Kept activations in host memory.
    pub offloaded: Bytes,
    /// The largest working set beside them: a recomputed layer, logits, an operator's output.
    pub transient: Bytes,
}

/// Bytes of a rank by tensor class.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Footprint {
    /// Weights in the compute format.
    pub weights: Bytes,
    /// Gradients; none where the fullest moment comes before them.
    pub gradients: Bytes,
    /// Master weights and optimizer state.
    pub optimizer: Bytes,
    /// Activations kept for the backward pass.
    pub activations: Bytes,
    /// Of these, what embedding, head and loss keep.
    pub ends: Bytes,
    /// Working set of the running operators.
    pub workspace: Bytes,
    /// Allocator loss on activations and workspace.
    pub fragmentation: Bytes,
    /// What an update holds beside state and gradients, when no activations are there; not in the total, unless
    /// the passes need less (`with`).
    pub updating: Bytes,
    /// Gradients that are there at the update and not yet when most activations are; in the total, as
    /// `gradients`, where the update's moment is the fullest (`with`).
    pub late: Bytes,
    /// Activations that layers keep and that are gone at the fullest moment, which is the update's.
    pub gone: Bytes,
    /// Driver context, kernels and communicator buffers.
    pub reserve: Bytes,
    /// In host memory, not in the total: activations, master weights, optimizer state, and the
    /// gradients that the update reads.
    pub host: Bytes,
}

/// Bytes of master weights and optimizer state per trained element.
///
/// Mixed precision keeps an fp32 copy (4 bytes) unless the state has the format of activations
/// (`Training::state`); Adam two moments (8 in fp32), SGD one momentum (4), Adafactor one number per row and
/// column of each matrix (Shazeer and Stern 2018): `2 / hidden` numbers per element of a square matrix. Muon
/// keeps what Adam keeps, but of matrices that it orthogonalises no second moment (`bytes_saved_by_muon`).
pub fn optimizer_bytes(training: &Training, hidden: f64) -> f64 {
    optimizer_kinds(training, hidden)
        .iter()
        .map(|(_, bytes)| bytes)
        .sum()
}

/// Master weights and optimizer state by kind, bytes per trained element; see `optimizer_bytes`.
pub fn optimizer_kinds(training: &Training, hidden: f64) -> [(&'static str, f64); 3] {
    let number = training.state.bytes();
    let master = if training.precision.activation() == training.state {
        0.0
    } else {
        number
    };
    let [first, second] = match training.optimizer {
        Optimizer::Adam | Optimizer::Muon => [("first moment", number), ("second moment", number)],
        Optimizer::Sgd => [("momentum", number), ("second moment", 0.0)],
        Optimizer::Adafactor => {
            let factored = number * 2.0 / hidden.max(1.0);
            [("first moment", 0.0), ("factored second moment", factored)]
        }
    };
    [("master weights", master), first, second]
}

/// Bytes that an optimizer step moves per trained element.
///
/// Gradients are read for the norm, read and written by the clipping, read by the update and
/// cleared (5 passes), and with loss scaling read and written once more to be unscaled; master
/// weights and state are read and written; the compute copy is made in a pass of its own, which
/// reads the master weights (weights without a copy are read and written instead). These are the
/// separate kernels of Megatron-LM's mixed-precision optimizers; a software profile may say how much
/// another program's Adam moves with fp32 state (`software.optimizer.update`), of which narrower state takes
/// its share, or what `software.optimizer.update_narrow` says.
pub fn optimizer_traffic(training: &Training, hidden: f64) -> f64 {
    let adam = matches!(training.optimizer, Optimizer::Adam | Optimizer::Muon);
    let software = &training.software;
    let share = training.state.bytes() / Dtype::Fp32.bytes();
    let narrow = if share < 1.0 {
        software.optimizer.update_narrow
    } else {
        None
    };
    let timed = narrow.or_else(|| software.optimizer.update.map(|bytes| bytes * share));
    if let (true, Some(bytes)) = (adam, timed) {
        return bytes;
    }
    let [gradients, copy] = update_passes(training);
    gradients + 2.0 * optimizer_bytes(training, hidden) + copy
}

/// The same per element of a matrix that Muon orthogonalises, its products left out.
pub fn matrix_traffic(training: &Training) -> f64 {
    let [gradients, copy] = update_passes(training);
    let number = training.state.bytes();
    // products take bf16: wider state is cast to it and back
    let casts = if number > Dtype::Bf16.bytes() {
        2.0 * (number + Dtype::Bf16.bytes())
    } else {
        0.0
    };
    // the update's own reading is among what the momentum takes
    gradients - training.gradient.bytes() + ORTHOGONALISED * number + casts + copy
}

/// Bytes per element of the gradients' passes and of the compute copy.
fn update_passes(training: &Training) -> [f64; 2] {
    let passes = if training.precision == Precision::Fp16 {
        7.0
    } else {
        5.0
    };
    let element = training.precision.activation().bytes();
    let copy = training.state.bytes() + element;
    [passes * training.gradient.bytes(), copy]
}

/// Bytes of host memory that an update on the host moves per trained element.
///
/// One fused pass (Ren et al. 2021, ZeRO-Offload, section 5.1): the gradient is written by the link
/// and read, master weights and state are read and written, the compute copy is written and read by
/// the link (fp32 weights are read and written, and read by the link).
pub fn host_optimizer_traffic(training: &Training, hidden: f64) -> f64 {
    let element = training.precision.activation().bytes();
    let copy = if element < training.state.bytes() {
        2.0 * element
    } else {
        3.0 * element
    };
    2.0 * training.gradient.bytes() + 2.0 * optimizer_bytes(training, hidden) + copy
}

impl Footprint {
    /// Applies number formats and ZeRO's division (Rajbhandari et al. 2020, table 1) to what is held
    /// whatever passes keep.
    pub fn new(holdings: &Holdings, training: &Training, reserve: Bytes) -> Self {
        let share = |stage, elements, shards| holdings.share(training, stage, elements, shards);
        let divided = |stage| holdings.sharded_elements(training, stage);
        let trains = if training.forward_only { 0.0 } else { 1.0 };
        let element = training.precision.activation().bytes();
        let [still, still_end] = frozen_bytes(training);
        let layers = holdings.frozen - holdings.frozen_ends;
        let frozen = share(3, layers, holdings.dense_shards) * still
            + share(3, holdings.frozen_expert, holdings.expert_shards) * still
            + share(3, holdings.frozen_ends, holdings.dense_shards) * still_end;
        let shards = holdings.dense_shards.max(holdings.expert_shards);
        let apart = training.software.zero.reduces_by_stage && holdings.zero == 1 && shards > 1.0;
        // gradients of a block before they are added to the sum, and the last buffer of a reduction of each
        // virtual stage (`software.zero.reduces_by_stage`)
        let wide = training.gradient.bytes();
        let each = match holdings.zero {
            2.. => wide,
            _ if apart => element + holdings.chunks * wide,
            _ => 0.0,
        };
        let blocks = holdings.gathered_bytes(training) + holdings.unreduced * trains * each;
        let workspace = Bytes::new(blocks);
        let [dense, expert] = holdings.matrices;
        let of = share(1, dense, holdings.dense_shards) + share(1, expert, holdings.expert_shards);
        let full = divided(1) * optimizer_bytes(training, holdings.hidden);
        let state = (full - of * bytes_saved_by_muon(training)) * trains;
        let (optimizer, host) = if holdings.host_optimizer {
            // weights that are updated themselves lie where they are updated
            let own = if element < training.state.bytes() {
                0.0
            } else {
                element
            };
            let beside = training.gradient.bytes() + own;
            (0.0, state + divided(1) * beside * trains)
        } else {
            (state, 0.0)
        };
        let [layer, end] = holdings.weight_bytes(training);
        let trained = divided(3);
        let ends = holdings.share(training, 3, holdings.wide_ends, holdings.dense_shards);
        let wider = (end - layer) * ends;
        let kept = trained * layer + wider;
        let gradients = holdings.gradients(training, apart) * training.gradient.bytes() * trains;
        let late = if holdings.frees_gradients {
            gradients
        } else {
            0.0
        };
        let updating = holdings.update_bytes(training) * trains;
        Self {
            weights: Bytes::new(kept + frozen + holdings.older_versions * trained * element),
            gradients: Bytes::new(gradients - late),
            optimizer: Bytes::new(optimizer),
            workspace,
            fragmentation: workspace * (FRAGMENTATION - 1.0),
            reserve,
            host: Bytes::new(host),
            updating: Bytes::new(updating),
            late: Bytes::new(late),
            ..Self::default()
        }
    }

    /// Adds what the device holds beside all passes.
    pub fn add_workspace(&mut self, more: Bytes) {
        self.workspace += more;
        self.fragmentation += more * (FRAGMENTATION - 1.0);
    }

    /// The same with what passes keep.
    pub fn with(&self, kept: &KeptActivations) -> Self {
        let workspace = kept.transient + self.workspace;
        if self.updated() > (kept.activations + workspace) * FRAGMENTATION {
            return Self {
                gradients: self.gradients + self.late,
                late: Bytes::ZERO,
                gone: kept.activations - kept.ends,
                workspace: self.updating,
                fragmentation: self.updating * (FRAGMENTATION - 1.0),
                host: kept.offloaded + self.host,
                ..*self
            };
        }
        Self {
            activations: kept.activations,
            ends: kept.ends,
            workspace,
            fragmentation: (kept.activations + workspace) * (FRAGMENTATION - 1.0),
            host: kept.offloaded + self.host,
            ..*self
        }
    }

    /// What `with` and `total` give for so many bytes of kept activations and working set, of one
    /// plan or several side by side.
    #[inline(always)]
    pub fn total_with<L: Lane>(&self, activations: L, transient: L) -> L {
        let state = (self.weights + self.gradients + self.optimizer).value();
        let workspace = transient + self.workspace.value();
        let fragmentation = (activations + workspace) * (FRAGMENTATION - 1.0);
        let passing = activations + state + workspace + fragmentation + self.reserve.value();
        let updating = self.late.value()
            + state
            + self.updating.value()
            + self.updating.value() * (FRAGMENTATION - 1.0)
            + self.reserve.value();
        passing.larger(L::splat(updating))
    }

    /// What lies beside the state that always stays while an update goes on.
    pub fn updated(&self) -> Bytes {
        self.late + self.updating * FRAGMENTATION
    }

    /// All classes on the device together.
    pub fn total(&self) -> Bytes {
        self.weights
            + self.gradients
            + self.optimizer
            + self.activations
            + self.workspace
            + self.fragmentation
            + self.reserve
    }
}
