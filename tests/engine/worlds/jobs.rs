//! Random small jobs and plans, drawn so that every plan field and every kind of model occurs.

use proptest::prelude::*;
use scalewright::collective::Algorithm;
use scalewright::estimate::{Estimate, Job, Verdict, estimate};
use scalewright::hardware::{Cluster, Host};
use scalewright::plan::{
    AxisOrder, ExpertRecompute, Plan, RecomputePolicy, ReplicaReduction, Schedule, check,
};
use scalewright::units::{Bytes, BytesPerSecond};
use scalewright::workload::{BlockRole, Training, Transformer};

const HEAD: &str = r#"{"name": "toy", "family": "decoder", "position": "rotary""#;

/// A GPT with biases, layer norms and a tied table.
pub fn gpt(layers: u64, hidden: u64) -> String {
    format!(
        r#"{{"name": "gpt", "family": "decoder", "layers": {layers}, "hidden": {hidden}, "heads": 16,
        "ffn": {}, "vocab": 51200, "max_positions": 2048, "position": "learned",
        "activation": "gelu", "norm": "layernorm", "tied_embeddings": true, "qkv_bias": true,
        "output_bias": true, "ffn_bias": true}}"#,
        4 * hidden
    )
}

/// Grouped queries, gated feed-forward, no biases, a head of its own.
pub fn llama(layers: u64, hidden: u64, kv_heads: u64) -> String {
    format!(
        r#"{HEAD}, "layers": {layers}, "hidden": {hidden}, "heads": 16, "kv_heads": {kv_heads},
        "ffn": {}, "vocab": 32000, "activation": "swiglu", "norm": "rmsnorm"}}"#,
        3 * hidden
    )
}

/// Eight routed experts in all layers but the first, and a shared one.
pub fn mixture(layers: u64, hidden: u64) -> String {
    format!(
        r#"{HEAD}, "layers": {layers}, "hidden": {hidden}, "heads": 16, "kv_heads": 8,
        "ffn": {}, "vocab": 32000, "activation": "swiglu", "norm": "rmsnorm",
        "experts": {{"experts": 8, "top_k": 2, "expert_ffn": {hidden}, "shared_ffn": {hidden},
        "first_dense_layers": 1}}}}"#,
        2 * hidden
    )
}

/// Latent attention with routed experts.
pub fn latent(layers: u64, hidden: u64) -> String {
    format!(
        r#"{HEAD}, "layers": {layers}, "hidden": {hidden}, "heads": 16, "ffn": {}, "vocab": 32000,
        "activation": "swiglu", "norm": "rmsnorm",
        "latent": {{"query_rank": 256, "kv_rank": 128, "nope_dim": 64, "rope_dim": 32, "value_dim": 64}},
        "experts": {{"experts": 16, "top_k": 4, "expert_ffn": {}}}}}"#,
        2 * hidden,
        hidden / 2
    )
}

/// Layers of one part each: scans, attention, feed-forward, and eight experts of a narrower stream.
pub fn hybrid(layers: u64, hidden: u64) -> String {
    let letters: String = "MEM*-E"
        .chars()
        .cycle()
        .take(usize::try_from(layers).unwrap())
        .collect();
    format!(
        r#"{{"name": "hybrid", "family": "decoder", "position": "none", "layers": {layers},
        "layer_pattern": "{letters}", "hidden": {hidden}, "heads": 16, "kv_heads": 8, "ffn": {},
        "vocab": 32000, "activation": "relu2", "norm": "rmsnorm",
        "state_space": {{"heads": 32, "head_dim": 64, "state": 64, "groups": 8}},
        "experts": {{"experts": 8, "top_k": 2, "expert_ffn": {hidden}, "shared_ffn": {hidden},
        "latent_width": {}}}}}"#,
        2 * hidden,
        hidden / 4
    )
}

/// Scans in every second layer, each with a feed-forward half.
pub fn scanning(layers: u64, hidden: u64) -> String {
    format!(
        r#"{HEAD}, "layers": {layers}, "hidden": {hidden}, "heads": 16, "kv_heads": 8,
        "ffn": {}, "vocab": 32000, "activation": "swiglu", "norm": "rmsnorm",
        "attention_pattern": ["state_space", "full"],
        "state_space": {{"heads": 16, "head_dim": 64, "state": 128, "groups": 8, "chunk": 256}}}}"#,
        2 * hidden
    )
}

/// A gated delta rule in every second layer, attention with a gate in the others.
pub fn ruled(layers: u64, hidden: u64) -> String {
    format!(
        r#"{HEAD}, "layers": {layers}, "hidden": {hidden}, "heads": 16, "kv_heads": 8,
        "ffn": {}, "vocab": 32000, "activation": "swiglu", "norm": "rmsnorm", "output_gate": true,
        "attention_pattern": ["state_space", "full"],
        "state_space": {{"rule": "gated_delta", "heads": 32, "head_dim": 64, "state": 128,
        "groups": 16}}}}"#,
        2 * hidden
    )
}

/// A model from its JSON text.
pub fn model(text: &str) -> Transformer {
    Transformer::from_json(text).unwrap()
}

/// A training job with every other field at its default; `more` holds further fields.
pub fn training(global_batch: u64, sequence: u64, more: &str) -> Training {
    let text = format!(r#"{{"global_batch": {global_batch}, "sequence": {sequence}{more}}}"#);
    serde_json::from_str(&text).unwrap()
}

/// A job of a model text on a cluster.
pub fn job(text: &str, cluster: &Cluster, training: &Training) -> Job {
    Job::new(&model(text), cluster, training, 0.0).unwrap()
}

/// The estimate of a legal plan.
#[allow(clippy::panic)]
pub fn priced(job: &Job, plan: &Plan) -> Estimate {
    match estimate(job, plan) {
        Verdict::Priced(estimate) => *estimate,
        Verdict::Illegal(rule) => panic!("{rule}: {plan:?}"),
    }
}

/// True where the virtual stages between the ends are of one kind. Otherwise what stands for them takes the
/// longest of each of their passes.
pub fn alike(job: &Job) -> bool {
    let layers = job.graph.blocks.iter();
    layers.filter(|b| b.role == BlockRole::Layer).count() == 1
}

/// Any of the toy models.
pub fn models() -> impl Strategy<Value = String> {
    let layers = prop::sample::select(vec![2_u64, 4, 7, 8, 12]);
    let hidden = prop::sample::select(vec![256_u64, 1024, 4096]);
    (layers, hidden, 0..8_u32).prop_map(|(layers, hidden, kind)| match kind {
        0 => gpt(layers, hidden),
        1 => llama(layers, hidden, 16),
        2 => llama(layers, hidden, 2),
        3 => mixture(layers, hidden),
        4 => hybrid(layers, hidden),
        5 => scanning(layers, hidden),
        6 => ruled(layers, hidden),
        _ => latent(layers, hidden),
    })
}

/// Any training job of the toy size.
pub fn trainings() -> impl Strategy<Value = Training> {
    let batch = prop::sample::select(vec![8_u64, 32, 96]);
    let sequence = prop::sample::select(vec![512_u64, 2048]);
    let optimizer = prop::sample::select(vec!["adam", "sgd", "adafactor", "muon"]);
    (batch, sequence, optimizer, any::<[bool; 4]>()).prop_map(|(batch, sequence, optimizer, on)| {
        let flash = on[0];
        let dropout = on[1] && !flash;
        let gradient = if on[2] { "fp32" } else { "bf16" };
        let fused = on[3];
        training(
            batch,
            sequence,
            &format!(
                r#", "flash_attention": {flash}, "dropout": {dropout}, "gradient": "{gradient}",
                "fused_gradients": {fused}, "optimizer": "{optimizer}""#
            ),
        )
    })
}

/// A host over `PCIe` 4.0 x16.
pub fn host() -> Host {
    Host::new(
        Bytes::new(1e12),
        BytesPerSecond::new(400e9),
        BytesPerSecond::new(31.5e9),
    )
}

/// Any cluster of 1 to 64 toy devices.
pub fn clusters() -> impl Strategy<Value = Cluster> {
    (0..4_u32, 0..7_u32).prop_map(|(fabric, exponent)| {
        let devices = 1 << exponent;
        let mut cluster = match fabric {
            0 => super::nodes_of_eight(devices),
            1 => super::oversubscribed(devices),
            2 => super::torus(devices),
            _ => super::reducing_switches(devices),
        };
        cluster.system.host = Some(host());
        cluster
    })
}

/// The same job on devices that lose a fifth of their units to collectives beside kernels.
pub fn contended(job: Job) -> Job {
    let mut cluster = job.cluster;
    cluster.device.matmul.units = 100;
    cluster.device.communication_units = 20.0;
    Job { cluster, ..job }
}

/// Any job.
pub fn jobs() -> impl Strategy<Value = Job> {
    (models(), clusters(), trainings())
        .prop_map(|(text, cluster, training)| job(&text, &cluster, &training))
}

/// What layers with routed experts may compute again.
const EXPERTS: [ExpertRecompute; 4] = [
    ExpertRecompute::Same,
    ExpertRecompute::None,
    ExpertRecompute::Selective,
    ExpertRecompute::Full,
];

/// Any plan, legal or not, whose axes multiply to 2^`exponent` devices.
fn drawn(exponent: u32) -> impl Strategy<Value = Plan> {
    let cuts = prop::array::uniform3(0..=exponent);
    let more = (0..4_u32, 0..3_u32, 0..3_u32, 0..4_u8, 0..3_u32, 0..2_u32);
    let chunks = prop::sample::select(vec![1_u32, 1, 2, 4, 8, 64]);
    let away = (any::<bool>(), prop::sample::select(vec![0_u32, 0, 30, 100]));
    let again = (0..4_u32, any::<bool>(), 0..EXPERTS.len());
    let rows = prop::sample::select(vec![0_u32, 0, 1, 2, 3]);
    let chosen = (cuts, more, any::<[bool; 7]>(), chunks, (away, again, rows));
    chosen.prop_map(
        move |(mut cuts, more, on, tensor_chunks, (away, again, rows))| {
            cuts.sort_unstable();
            let (expert, micro, schedule, zero, recompute, group) = more;
            let tensor = 1 << (cuts[0]).min(4);
            let context = 1 << ((cuts[1] - cuts[0]) / 2);
            let pipeline = 1 << (cuts[2] - cuts[1]).min(3);
            let data = (1 << exponent) / (tensor * context * pipeline);
            let interleaved = schedule == 2 && pipeline > 1;
            let tensor_rows = tensor.min(1 << rows);
            Plan {
                tensor,
                tensor_rows,
                context,
                pipeline,
                data,
                expert: 1 << expert,
                expert_tensor: u32::from(on[0]),
                micro_batch: 1 << micro,
                interleave: if interleaved { 2 } else { 1 },
                schedule: match schedule {
                    0 => Schedule::GPipe,
                    2 if interleaved => Schedule::Interleaved,
                    _ => Schedule::OneForwardOneBackward,
                },
                zero,
                zero_group: if group == 0 { 0 } else { context * data },
                recompute: match recompute {
                    0 => RecomputePolicy::None,
                    1 => RecomputePolicy::Selective,
                    _ => RecomputePolicy::Full,
                },
                recompute_layers: again.0,
                recompute_rest: if again.0 > 0 && again.1 {
                    RecomputePolicy::Selective
                } else {
                    RecomputePolicy::None
                },
                recompute_experts: EXPERTS[again.2],
                sequence_parallel: on[1] && tensor > tensor_rows,
                overlap_grad_reduce: on[2],
                overlap_param_gather: on[3],
                overlap_tensor: on[4],
                overlap_pipeline: on[5] && interleaved,
                tensor_chunks: if tensor_rows > 1 { 1 } else { tensor_chunks },
                overlap_expert: on[6],
                offload_optimizer: away.0,
                offload_activations: away.1,
                ..Plan::default()
            }
        },
    )
}

/// Where the ranks of a plan lie, how many layers its ends hold, and how replicas sum.
fn placed() -> impl Strategy<Value = (AxisOrder, [u32; 2], ReplicaReduction)> {
    let order = prop::sample::select(AxisOrder::ALL.to_vec());
    let ends = prop::array::uniform2(prop::sample::select(vec![0_u32, 0, 1, 2, 3, 5]));
    let collectives = prop::sample::select(vec![
        ReplicaReduction::Auto,
        ReplicaReduction::Forced(Algorithm::Ring),
        ReplicaReduction::Forced(Algorithm::Tree),
        ReplicaReduction::Forced(Algorithm::HalvingDoubling),
        ReplicaReduction::Forced(Algorithm::Hierarchical),
        ReplicaReduction::Forced(Algorithm::Torus),
        ReplicaReduction::Forced(Algorithm::ParameterServer { servers: 2 }),
    ]);
    (order, ends, collectives)
}

/// The plan with as much of what is drawn as leaves it legal.
fn with_placed(
    job: &Job,
    plan: &Plan,
    (axis_order, ends, collectives): (AxisOrder, [u32; 2], ReplicaReduction),
) -> Plan {
    let [first_layers, last_layers] = ends;
    let ordered = Plan {
        axis_order,
        ..plan.clone()
    };
    let mut taken = plan.clone();
    for wanted in [
        ordered.clone(),
        Plan {
            first_layers,
            last_layers,
            ..ordered
        },
    ] {
        for collectives in [ReplicaReduction::Auto, collectives] {
            let changed = Plan {
                collectives,
                ..wanted.clone()
            };
            // tests compare ZeRO stages, which sum over unlike groups
            let legal = (0..4).all(|zero| {
                let staged = Plan {
                    zero,
                    ..changed.clone()
                };
                check(&staged, &job.shape, &job.training, job.cluster.devices).is_ok()
            });
            if legal {
                taken = changed;
            }
        }
    }
    taken
}

/// Any job with a legal plan of it.
pub fn planned() -> impl Strategy<Value = (Job, Plan)> {
    jobs()
        .prop_flat_map(|job| {
            let exponent = job.cluster.devices.trailing_zeros();
            (Just(job), drawn(exponent), placed())
        })
        .prop_map(|(job, plan, placed)| {
            let plan = if job.shape.experts {
                Plan {
                    tensor_rows: 1,
                    sequence_parallel: plan.tensor > 1,
                    ..plan
                }
            } else {
                Plan {
                    recompute_experts: ExpertRecompute::Same,
                    expert: 1,
                    expert_tensor: 0,
                    ..plan
                }
            };
            let plan = with_placed(&job, &plan, placed);
            (job, plan)
        })
        .prop_filter("legal", |(job, plan)| {
            check(plan, &job.shape, &job.training, job.cluster.devices).is_ok()
        })
}
