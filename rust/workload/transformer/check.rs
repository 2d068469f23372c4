//! What is wrong with a transformer's shape, said by field.

use super::config::{
    AttentionKind, ExpertLoad, Family, LatentAttention, Lora, MixtureOfExperts, Position,
    StateSpace, Transformer,
};
use super::shape::{Feed, LETTERS};
use crate::error::{Error, Result};

/// Projections that adapters may target.
const TARGETS: [&str; 7] = ["query", "key", "value", "output", "up", "gate", "down"];
/// Counts stay exact in an `f64` up to here.
const MOST_PARAMETERS: u64 = 1 << 53;
const MOST_WIDTH: u64 = 1 << 24;
/// Layers of a model.
pub const MOST_LAYERS: u64 = 1 << 16;
const MOST_PREDICTIONS: u64 = 16;
/// Positions of a scan's chunk, or of a convolution.
const MOST_CHUNK: u64 = 1 << 16;

/// `value` of `model.FIELD` lies in `least..=most`.
fn within(field: &str, value: u64, least: u64, most: u64) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let allowed = format!("{least} to {most}");
    Err(Error::invalid(format!("model.{field}"), value, allowed))
}

/// Refuses `model.FIELD` unless `legal`.
fn require(legal: bool, field: &str, got: impl ToString, allowed: &str) -> Result<()> {
    if legal {
        return Ok(());
    }
    Err(Error::invalid(format!("model.{field}"), got, allowed))
}

impl Transformer {
    /// Refuses shapes that contradict themselves or cannot exist.
    pub fn check(&self) -> Result<()> {
        require(!self.name.trim().is_empty(), "name", "''", "a name")?;
        self.check_depth()?;
        self.check_sizes()?;
        self.check_heads()?;
        self.check_stacks()?;
        self.check_positions()?;
        self.check_pattern()?;
        self.check_letters()?;
        self.check_mixers()?;
        if let Some(mixture) = &self.experts {
            mixture.check(self.layers)?;
        }
        self.check_frozen()?;
        for (name, &count) in &self.extra_parameters {
            within(
                &format!("extra_parameters.{name}"),
                count,
                1,
                MOST_PARAMETERS,
            )?;
        }
        let counted = self.parameters();
        let total = counted.total.max(counted.padded_total);
        within(
            "parameters (of all fields together)",
            total,
            1,
            MOST_PARAMETERS,
        )
    }

    /// Comes first: what follows lists the layers one by one.
    fn check_depth(&self) -> Result<()> {
        within("layers", self.layers, 1, MOST_LAYERS)?;
        if self.family == Family::EncoderDecoder {
            return within("encoder_layers", self.encoder_layers, 1, MOST_LAYERS);
        }
        let none = self.encoder_layers == 0;
        let allowed = "0, or family encoder_decoder";
        require(none, "encoder_layers", self.encoder_layers, allowed)
    }

    fn check_sizes(&self) -> Result<()> {
        within("hidden", self.hidden, 1, MOST_WIDTH)?;
        let kinds = self.layer_kinds();
        let dense = kinds
            .iter()
            .chain(&self.prediction_kinds())
            .any(|k| k.feed == Some(Feed::Dense));
        within("ffn", self.ffn, u64::from(dense), MOST_WIDTH)?;
        within("vocab", self.vocab, 1, MOST_WIDTH)?;
        if let Some(padded) = self.padded_vocab {
            within("padded_vocab", padded, self.vocab, MOST_WIDTH)?;
        }
        Ok(())
    }

    fn check_heads(&self) -> Result<()> {
        within("heads", self.heads, 1, MOST_WIDTH)?;
        let groups = self.key_value_heads();
        let divides = self.heads.checked_rem(groups) == Some(0);
        let allowed = format!("a divisor of model.heads = {}", self.heads);
        require(divides, "kv_heads", groups, &allowed)?;
        let gates = self.latent.is_none() && self.family == Family::Decoder;
        let allowed = "false, or family decoder without model.latent";
        require(
            gates || !self.output_gate,
            "output_gate",
            self.output_gate,
            allowed,
        )?;
        if let Some(latent) = &self.latent {
            return self.check_latent(latent);
        }
        if let Some(width) = self.head_dim {
            return within("head_dim", width, 1, MOST_WIDTH);
        }
        let allowed = format!(
            "a divisor of model.hidden = {}, or model.head_dim set",
            self.hidden
        );
        let divides = self.hidden.checked_rem(self.heads) == Some(0);
        require(divides, "heads", self.heads, &allowed)
    }

    fn check_latent(&self, latent: &LatentAttention) -> Result<()> {
        for (field, value) in [
            ("latent.query_rank", latent.query_rank.unwrap_or(1)),
            ("latent.kv_rank", latent.kv_rank),
            ("latent.nope_dim", latent.nope_dim),
            ("latent.rope_dim", latent.rope_dim),
            ("latent.value_dim", latent.value_dim),
        ] {
            within(field, value, 1, MOST_WIDTH)?;
        }
        let width = self.head_dim.unwrap_or(0);
        let allowed = "absent: model.latent sets the widths per head";
        require(self.head_dim.is_none(), "head_dim", width, allowed)?;
        let groups = self.key_value_heads();
        let allowed = format!("absent or model.heads = {} with model.latent", self.heads);
        require(groups == self.heads, "kv_heads", groups, &allowed)?;
        let allowed = "false: model.latent has norms of its own";
        require(!self.qk_norm, "qk_norm", self.qk_norm, allowed)?;
        let decoder = self.family != Family::EncoderDecoder;
        let allowed = "absent: latent attention has no cross-attending form";
        require(decoder, "latent", "widths", allowed)
    }

    fn check_stacks(&self) -> Result<()> {
        within(
            "prediction_layers",
            self.prediction_layers,
            0,
            MOST_PREDICTIONS,
        )?;
        let whole = self.lora.is_none() && self.frozen_layers == 0;
        let legal = self.prediction_layers == 0 || (whole && self.family == Family::Decoder);
        let allowed = "0, or a decoder of which all is trained";
        require(legal, "prediction_layers", self.prediction_layers, allowed)?;
        if self.family == Family::EncoderDecoder {
            let positions = self.encoder_sequence.unwrap_or(1);
            within("encoder_sequence", positions, 1, 1 << 32)?;
            let allowed = "false: parallel blocks have no cross-attending form";
            return require(!self.parallel_block, "parallel_block", true, allowed);
        }
        let positions = self.encoder_sequence.unwrap_or(0);
        let allowed = "absent, or family encoder_decoder";
        let absent = self.encoder_sequence.is_none();
        require(absent, "encoder_sequence", positions, allowed)
    }

    fn check_positions(&self) -> Result<()> {
        let least = u64::from(self.position == Position::Learned);
        within("max_positions", self.max_positions, least, 1 << 32)?;
        within("segments", self.segments, 0, MOST_WIDTH)?;
        let least = u64::from(self.position == Position::Relative);
        within("relative_buckets", self.relative_buckets, least, MOST_WIDTH)
    }

    fn check_pattern(&self) -> Result<()> {
        let length = self.attention_pattern.len() as u64;
        let allowed = format!("at most model.layers = {} entries", self.layers);
        require(length <= self.layers, "attention_pattern", length, &allowed)?;
        let sliding = self.attention_pattern.contains(&AttentionKind::Sliding);
        let Some(window) = self.sliding_window else {
            let allowed = "a number of positions: model.attention_pattern has 'sliding'";
            return require(!sliding, "sliding_window", "nothing", allowed);
        };
        within("sliding_window", window, 1, 1 << 32)?;
        let allowed = "absent, or model.attention_pattern with 'sliding'";
        require(sliding, "sliding_window", window, allowed)
    }

    /// Whether the letters of layers are known ones, one a layer, and say all that other fields would.
    fn check_letters(&self) -> Result<()> {
        for (field, letters) in [
            ("layer_pattern", &self.layer_pattern),
            ("prediction_pattern", &self.prediction_pattern),
        ] {
            let unknown = letters.chars().find(|letter| !LETTERS.contains(*letter));
            let allowed = "'M' state space, '*' attention, '-' feed-forward, 'E' experts";
            require(unknown.is_none(), field, unknown.unwrap_or(' '), allowed)?;
        }
        let letters = self.layer_pattern.len() as u64;
        if letters == 0 {
            return Ok(());
        }
        let allowed = format!("one letter a layer, {}", self.layers);
        let length = format!("{letters} letters");
        require(letters == self.layers, "layer_pattern", length, &allowed)?;
        let alone = self.family == Family::Decoder
            && self.attention_pattern.is_empty()
            && !self.parallel_block;
        let allowed = "empty, or a decoder without attention_pattern and parallel_block";
        require(alone, "layer_pattern", &self.layer_pattern, allowed)?;
        let dealt = self.experts.as_ref();
        let dealt = dealt.is_some_and(|m| m.first_dense_layers > 0 || m.every > 1);
        let allowed = "0 and 1: model.layer_pattern says which layers are sparse";
        require(
            !dealt,
            "experts.first_dense_layers and every",
            "others",
            allowed,
        )
    }

    /// Whether state-space mixers and experts are described where layers have them, and only there.
    fn check_mixers(&self) -> Result<()> {
        let mut kinds = self.layer_kinds();
        kinds.extend(self.prediction_kinds());
        let words = |given: bool| if given { "widths" } else { "nothing" };
        let given = self.state_space.is_some();
        let mixes = kinds.iter().any(|kind| kind.has_state_space());
        let allowed = "widths where layers are state-space mixers, and else absent";
        require(mixes == given, "state_space", words(given), allowed)?;
        let letters = !self.layer_pattern.is_empty() || !self.prediction_pattern.is_empty();
        let given = self.experts.is_some();
        let routes = kinds.iter().any(|kind| kind.is_sparse());
        let allowed = "widths where letters of layers have 'E', and else absent";
        require(
            !letters || routes == given,
            "experts",
            words(given),
            allowed,
        )?;
        let Some(widths) = &self.state_space else {
            return Ok(());
        };
        let causal = self.family == Family::Decoder;
        let allowed = "absent, or family decoder: scans run one way";
        require(causal, "state_space", "widths", allowed)?;
        widths.check()
    }

    fn check_frozen(&self) -> Result<()> {
        within("frozen_layers", self.frozen_layers, 0, self.all_layers())?;
        let Some(lora) = &self.lora else {
            return Ok(());
        };
        let allowed = "0: model.lora already freezes all layers";
        let none = self.frozen_layers == 0;
        require(none, "frozen_layers", self.frozen_layers, allowed)?;
        lora.check(self)
    }
}

impl StateSpace {
    fn check(&self) -> Result<()> {
        within("state_space.heads", self.heads, 1, MOST_WIDTH)?;
        within("state_space.head_dim", self.head_dim, 1, MOST_WIDTH)?;
        within("state_space.state", self.state, 1, MOST_WIDTH)?;
        within("state_space.convolution", self.convolution, 1, MOST_CHUNK)?;
        within("state_space.chunk", self.chunk(), 1, MOST_CHUNK)?;
        let divides = self.heads.checked_rem(self.groups) == Some(0);
        let allowed = format!("a divisor of state_space.heads = {}", self.heads);
        require(divides, "state_space.groups", self.groups, &allowed)
    }
}

impl MixtureOfExperts {
    fn check(&self, layers: u64) -> Result<()> {
        within("experts.experts", self.experts, 1, 1 << 20)?;
        within("experts.top_k", self.top_k, 1, self.experts)?;
        within("experts.expert_ffn", self.expert_ffn, 1, MOST_WIDTH)?;
        let latent = self.latent_width.unwrap_or(1);
        within("experts.latent_width", latent, 1, MOST_WIDTH)?;
        within("experts.shared_ffn", self.shared_ffn, 0, MOST_WIDTH)?;
        let gated = self.shared_ffn > 0 || !self.shared_gate;
        let allowed = "false, or experts.shared_ffn above 0";
        require(gated, "experts.shared_gate", self.shared_gate, allowed)?;
        let dense = self.first_dense_layers;
        within("experts.first_dense_layers", dense, 0, layers - 1)?;
        within("experts.every", self.every, 1, layers - dense)?;
        if let Some(capacity) = self.capacity_factor {
            let legal = capacity.is_finite() && capacity > 0.0;
            let allowed = "a finite number above 0";
            require(legal, "experts.capacity_factor", capacity, allowed)?;
        }
        self.expert_load.check(self.experts)
    }
}

impl ExpertLoad {
    fn check(&self, experts: u64) -> Result<()> {
        match self {
            Self::Balanced => Ok(()),
            Self::PowerLaw { exponent } => {
                let field = "experts.expert_load.power_law.exponent";
                let legal = (0.0..=16.0).contains(exponent);
                require(legal, field, exponent, "0 to 16")
            }
            Self::Histogram { weights } => {
                let field = "experts.expert_load.histogram.weights";
                let allowed = format!("one per expert, {experts}");
                let length = weights.len() as u64;
                require(
                    length == experts,
                    field,
                    format!("{length} weights"),
                    &allowed,
                )?;
                let bad = weights.iter().find(|w| !(w.is_finite() && **w >= 0.0));
                let allowed = "finite numbers from 0";
                require(bad.is_none(), field, bad.unwrap_or(&0.0), allowed)?;
                let some = weights.iter().any(|w| *w > 0.0);
                require(some, field, "all 0", "at least one above 0")
            }
        }
    }
}

impl Lora {
    fn check(&self, model: &Transformer) -> Result<()> {
        within("lora.rank", self.rank, 1, model.hidden)?;
        let none = self.targets.is_empty();
        require(!none, "lora.targets", "none", "one or more projections")?;
        for (i, target) in self.targets.iter().enumerate() {
            if !TARGETS.contains(&target.as_str()) {
                return Err(Error::unknown("model.lora.targets", target, TARGETS));
            }
            let first = !self.targets[..i].contains(target);
            require(first, "lora.targets", target, "each projection once")?;
            let gated = target != "gate" || model.activation.projections() == 2;
            let allowed = "projections that the activation has: it is not gated";
            require(gated, "lora.targets", target, allowed)?;
        }
        Ok(())
    }
}
