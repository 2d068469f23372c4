//! In which format does a buffer travel, how many bits is that, and what does encoding it cost?

use crate::error::{Error, Result};
use crate::units::Dtype;
use serde::{Deserialize, Serialize};

/// Bytes of one fp32 scale.
pub(super) const SCALE: f64 = 4.0;

/// Bytes of the place of an entry: 32 bits, as sparse all-gathers send them.
const INDEX: f64 = 4.0;

/// Formats in which a buffer can travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// 32 bits an element, summed on the way.
    Fp32,
    /// 16 bits an element, summed on the way.
    Fp16,
    /// 16 bits an element, summed on the way.
    Bf16,
    /// 8-bit floats with fp32 scales.
    Fp8,
    /// 8-bit floats with an 8-bit scale per 32 (OCP MX 1.0).
    Mxfp8,
    /// 8-bit integers with fp32 scales.
    Int8,
    /// 4-bit floats with an 8-bit scale per 16.
    Nvfp4,
    /// The signs, with fp32 scales.
    OneBit,
    /// The largest entries with their places.
    TopK,
}

/// A format with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Payload {
    /// How elements are written.
    pub format: Format,
    /// Elements to one fp32 scale, for `fp8`, `int8` and `one_bit`; absent: one scale for each chunk
    /// that a rank sends to another.
    #[serde(default)]
    pub block: Option<u32>,
    /// Share of the elements that `top_k` sends, above 0 up to 1.
    #[serde(default)]
    pub share: Option<f64>,
    /// Format of the entries that `top_k` sends: `fp32`, `fp16` or `bf16`; absent: that of the buffer.
    #[serde(default)]
    pub values: Option<Dtype>,
    /// True where the ranks of a node add up at full precision first, and coded chunks pass between
    /// nodes only.
    #[serde(default)]
    pub nodes_first: bool,
}

impl From<Format> for Payload {
    fn from(format: Format) -> Self {
        Self {
            format,
            block: None,
            share: None,
            values: None,
            nodes_first: false,
        }
    }
}

/// How ranks add what they cannot add in its coded form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SumMethod {
    /// The buffer as it is.
    AsHeld,
    /// Cast, then an all-reduce in that format.
    Cast,
    /// An all-to-all of coded chunks, a sum of the decoded ones, an all-gather of the coded sums.
    TwoPhases,
    /// An all-gather of the entries of all ranks: their places differ, so sums fill in.
    Gather,
}

/// Main-memory traffic of encoding and decoding, in bytes for each element of the buffer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MemoryPasses {
    /// Before the first message.
    pub(super) encode: f64,
    /// Kernels of it.
    pub(super) encode_launches: f64,
    /// Beside the coded data, summing a rank's own chunk and coding it again: bytes for each of its elements.
    pub(super) chunk: f64,
}

impl Payload {
    /// Refuses settings that the format does not have, and shares and blocks that cannot be.
    pub(super) fn check(&self) -> Result<()> {
        use Format::{Fp8, Int8, OneBit, TopK};
        let lacks = |field: &str, got: String, formats: &str| {
            let allowed = format!("no {field} for this format, only for {formats}");
            Err(Error::invalid(format!("payload.{field}"), got, allowed))
        };
        match (self.format, self.block) {
            (Fp8 | Int8 | OneBit, Some(0)) => {
                return Err(Error::invalid("payload.block", 0, "1 element or more"));
            }
            (Fp8 | Int8 | OneBit, _) | (_, None) => {}
            (_, Some(block)) => return lacks("block", block.to_string(), "fp8, int8, one_bit"),
        }
        match (self.format, self.share) {
            (TopK, Some(share)) if (1e-12..=1.0).contains(&share) => {}
            (TopK, share) => {
                let got = share.map_or("none".to_owned(), |share| share.to_string());
                let allowed = "a share of the elements from 1e-12 to 1";
                return Err(Error::invalid("payload.share", got, allowed));
            }
            (_, None) => {}
            (_, Some(share)) => return lacks("share", share.to_string(), "top_k"),
        }
        match (self.format, self.values) {
            (TopK, Some(Dtype::Fp32 | Dtype::Fp16 | Dtype::Bf16)) | (_, None) => Ok(()),
            (TopK, Some(values)) => {
                let allowed = "fp32, fp16 or bf16";
                Err(Error::invalid("payload.values", values.name(), allowed))
            }
            (_, Some(values)) => lacks("values", values.name().to_owned(), "top_k"),
        }
    }

    /// The number format that dense elements are written in; none for signs and entries.
    fn dense(self) -> Option<Dtype> {
        match self.format {
            Format::Fp32 => Some(Dtype::Fp32),
            Format::Fp16 => Some(Dtype::Fp16),
            Format::Bf16 => Some(Dtype::Bf16),
            Format::Fp8 => Some(Dtype::Fp8),
            Format::Mxfp8 => Some(Dtype::Mxfp8),
            Format::Int8 => Some(Dtype::Int8),
            Format::Nvfp4 => Some(Dtype::Nvfp4),
            Format::OneBit | Format::TopK => None,
        }
    }

    /// How sums come about for a buffer held in `held`.
    pub(super) fn way(self, held: Dtype) -> SumMethod {
        match self.format {
            _ if self.dense() == Some(held) => SumMethod::AsHeld,
            Format::Fp32 | Format::Fp16 | Format::Bf16 => SumMethod::Cast,
            Format::TopK => SumMethod::Gather,
            _ => SumMethod::TwoPhases,
        }
    }

    /// Coded bytes of one element on average, the scales of blocks included.
    ///
    /// ```text
    /// dense: bytes of the format    fp8, int8: 1 + 4 / block    one_bit: 1/8 + 4 / block
    /// top_k: share * (bytes of a value + 4)
    /// ```
    pub(super) fn bytes(self, held: Dtype) -> f64 {
        let scales = self.block.map_or(0.0, |block| SCALE / f64::from(block));
        match (self.dense(), self.share) {
            (Some(dtype), _) => dtype.bytes() + scales,
            (None, Some(share)) => share * (self.values.unwrap_or(held).bytes() + INDEX),
            (None, None) => 0.125 + scales,
        }
    }

    /// Bytes of the scale that goes with each message, whatever its size.
    pub(super) fn scale(self) -> f64 {
        let scaled = matches!(self.format, Format::Fp8 | Format::Int8 | Format::OneBit);
        if scaled && self.block.is_none() {
            SCALE
        } else {
            0.0
        }
    }

    /// What encoding moves, `b` bytes held and `w` coded to an element; each kernel reads what it needs
    /// and writes what it makes once, at streaming rate.
    ///
    /// ```text
    /// cast            b + w     one kernel
    /// fp8, int8, ...  2b + w    one finds the scale, one codes
    /// one_bit, top_k  5b + w    one adds the error of the step before (reads 2b, writes b) and finds the
    ///                           scale or the threshold, one codes (reads b) and keeps the error (writes b)
    /// own chunk       2b        its sum waits for its scale: written, then read; 4b with an error
    /// ```
    ///
    /// Errors are kept in the buffer's format. The two-kernel shape and the two errors of signs follow
    /// `DeepSpeed`'s `compressed_allreduce`, with its element-wise steps fused.
    pub(super) fn passes(self, held: Dtype) -> MemoryPasses {
        let (b, w) = (held.bytes(), self.bytes(held));
        let (encode, encode_launches, chunk) = match (self.way(held), self.format) {
            (SumMethod::AsHeld, _) => (0.0, 0.0, 0.0),
            (SumMethod::Cast, _) => (b + w, 1.0, 0.0),
            (SumMethod::Gather, _) => (5.0 * b + w, 2.0, 0.0),
            (SumMethod::TwoPhases, Format::OneBit) => (5.0 * b + w, 2.0, 4.0 * b),
            (SumMethod::TwoPhases, _) => (2.0 * b + w, 2.0, 2.0 * b),
        };
        MemoryPasses {
            encode,
            encode_launches,
            chunk,
        }
    }
}
