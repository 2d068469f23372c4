//! Into which slices along its tokens is each sequence cut?

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Slices of a sequence, which go through the pipeline one after the other (Li et al. 2021, `TeraPipe`).
///
/// Written as a count of equal slices, as a list of their lengths, or as text that adds
/// them up: `4`, `[776, 640, 632]`, `776+640+632`, `120*4+112*6+104*8+64`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TokenSlices {
    /// So many equal ones; 1: none is cut.
    Even(u32),
    /// Tokens of each, from the front of the sequence.
    Lengths(Box<[u32]>),
}

/// Most slices of a sequence.
pub const MOST_SLICES: usize = 4096;

impl Default for TokenSlices {
    fn default() -> Self {
        Self::Even(1)
    }
}

impl TokenSlices {
    /// Slices of a sequence.
    pub fn count(&self) -> usize {
        match self {
            Self::Even(count) => usize::try_from(*count).unwrap_or(usize::MAX),
            Self::Lengths(lengths) => lengths.len(),
        }
    }

    /// True where sequences are cut.
    pub fn cuts(&self) -> bool {
        self.count() > 1
    }

    /// Tokens of each slice of a sequence, and tokens in front of it.
    pub fn of(&self, sequence: u64) -> impl Iterator<Item = [u64; 2]> {
        let count = self.count();
        let lengths = (0..count).map(move |place| match self {
            Self::Even(_) => sequence / (count as u64).max(1),
            Self::Lengths(lengths) => u64::from(lengths[place]),
        });
        lengths.scan(0, |before, tokens| {
            let slice = [tokens, *before];
            *before += tokens;
            Some(slice)
        })
    }

    /// Reads lengths that are added up, or one count.
    fn read(text: &str) -> Option<Self> {
        let number = |text: &str| text.trim().parse::<u32>().ok();
        if let Some(count) = number(text) {
            return Some(Self::Even(count));
        }
        let mut lengths = Vec::new();
        let listed = text.trim();
        let bare = listed.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
        for part in bare.unwrap_or(listed).split(['+', ',']) {
            let (length, times) = match part.split_once('*') {
                Some((length, times)) => (number(length)?, usize::try_from(number(times)?).ok()?),
                None => (number(part)?, 1),
            };
            if lengths.len() + times > MOST_SLICES {
                return None;
            }
            lengths.extend(std::iter::repeat_n(length, times));
        }
        Some(Self::Lengths(lengths.into()))
    }
}

/// The count, or the lengths added up, those that repeat as `120*4`.
impl fmt::Display for TokenSlices {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let lengths = match self {
            Self::Even(count) => return write!(out, "{count}"),
            Self::Lengths(lengths) => lengths,
        };
        for (place, run) in lengths.chunk_by(|a, b| a == b).enumerate() {
            let plus = if place > 0 { "+" } else { "" };
            match run.len() {
                // a sum of one is no count
                1 if lengths.len() > 1 => write!(out, "{plus}{}", run[0])?,
                times => write!(out, "{plus}{}*{times}", run[0])?,
            }
        }
        Ok(())
    }
}

impl Serialize for TokenSlices {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Even(count) => to.serialize_u32(*count),
            Self::Lengths(_) => to.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for TokenSlices {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TokenSlicesVisitor)
    }
}

struct TokenSlicesVisitor;

impl<'de> Visitor<'de> for TokenSlicesVisitor {
    type Value = TokenSlices;

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(
            out,
            "token_slices as a count such as 4, a list of up to {MOST_SLICES} lengths such as \
             [776, 640, 632], or text such as 776+640+632"
        )
    }

    fn visit_u64<E: serde::de::Error>(self, count: u64) -> Result<TokenSlices, E> {
        let read = u32::try_from(count).map(TokenSlices::Even);
        read.map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(count), &self))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<TokenSlices, E> {
        let read = TokenSlices::read(text);
        read.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<TokenSlices, A::Error> {
        let mut lengths: Vec<u32> = Vec::new();
        while let Some(length) = from.next_element()? {
            if lengths.len() == MOST_SLICES {
                return Err(A::Error::invalid_length(MOST_SLICES + 1, &self));
            }
            lengths.push(length);
        }
        Ok(TokenSlices::Lengths(lengths.into()))
    }
}
