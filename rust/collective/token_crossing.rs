//! How do copies of a token cross a fabric: each for itself, or as one?

/// What an all-to-all carries for each of the ranks and units that it reaches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Crossing {
    /// Every byte for itself.
    #[default]
    Each,
    /// Tokens in so many copies, of which those for one rank or one unit of the fabric cross as one.
    Once {
        /// Copies of each token among the bytes.
        copies: u16,
        /// True where kernels write into the memory of other ranks at the rate of links, rows of their own rank
        /// among them; else as the fabric's library sends pairwise.
        direct: bool,
    },
    /// What goes beside such a token for every rank of the innermost unit; the bytes are those for one.
    Beside {
        /// Copies of each token among the bytes.
        copies: u16,
        /// As of the token.
        direct: bool,
    },
}
