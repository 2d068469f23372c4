//! Number formats and their sizes.

use serde::{Deserialize, Serialize};

/// A number format of operands or storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// 64-bit IEEE.
    Fp64,
    /// 32-bit IEEE.
    Fp32,
    /// 19-bit tensor-core input, stored as 32 bits.
    Tf32,
    /// bfloat16.
    Bf16,
    /// 16-bit IEEE.
    Fp16,
    /// 8-bit float with a scale per tensor (E4M3 or E5M2).
    Fp8,
    /// 8-bit float with an 8-bit scale per block of 32 (OCP MX 1.0).
    Mxfp8,
    /// 8-bit integer.
    Int8,
    /// 4-bit float with an 8-bit scale per block of 16.
    Nvfp4,
    /// 4-bit float with an 8-bit scale per block of 32 (OCP MX 1.0).
    Mxfp4,
    /// 4-bit integer with a 16-bit scale per group of 128.
    Int4,
}

impl Dtype {
    /// Every format, widest first.
    pub const ALL: [Self; 11] = [
        Self::Fp64,
        Self::Fp32,
        Self::Tf32,
        Self::Bf16,
        Self::Fp16,
        Self::Fp8,
        Self::Mxfp8,
        Self::Int8,
        Self::Nvfp4,
        Self::Mxfp4,
        Self::Int4,
    ];

    /// Bytes that one element takes in memory, its share of block scales included.
    pub const fn bytes(self) -> f64 {
        let scales = match self {
            Self::Mxfp8 | Self::Mxfp4 => 1.0 / 32.0,
            Self::Nvfp4 => 1.0 / 16.0,
            Self::Int4 => 2.0 / 128.0,
            _ => 0.0,
        };
        self.element_bytes() + scales
    }

    /// Bytes of one element without its share of block scales, which lie in a tensor of their own.
    pub const fn element_bytes(self) -> f64 {
        match self {
            Self::Fp64 => 8.0,
            Self::Fp32 | Self::Tf32 => 4.0,
            Self::Bf16 | Self::Fp16 => 2.0,
            Self::Fp8 | Self::Mxfp8 | Self::Int8 => 1.0,
            Self::Nvfp4 | Self::Mxfp4 | Self::Int4 => 0.5,
        }
    }

    /// Lower-case name, as in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fp64 => "fp64",
            Self::Fp32 => "fp32",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
            Self::Fp16 => "fp16",
            Self::Fp8 => "fp8",
            Self::Mxfp8 => "mxfp8",
            Self::Int8 => "int8",
            Self::Nvfp4 => "nvfp4",
            Self::Mxfp4 => "mxfp4",
            Self::Int4 => "int4",
        }
    }
}
