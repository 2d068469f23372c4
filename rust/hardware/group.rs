//! Where a group of ranks lies on the fabric: members per level, and who shares the links.

/// Most fabric levels that a system can have.
pub const MAX_LEVELS: usize = 4;

/// Most dimensions of a torus.
pub const MAX_DIMS: usize = 3;

/// A set of ranks that communicate, seen from the fabric.
///
/// Level 0 joins devices, level `i` joins units of level `i - 1`. The group covers `members[i]`
/// units of level `i - 1` inside one unit of level `i`; the product over levels is its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Group {
    /// Ranks in the group.
    pub size: u32,
    /// Devices from one rank to the next.
    pub stride: u32,
    /// Units of the level below that the group covers inside one unit of this level.
    pub members: [u32; MAX_LEVELS],
    /// Groups like this one that share the uplink of one unit of the level below, this one included.
    pub siblings: [u32; MAX_LEVELS],
    /// Members along each dimension of the torus level; all 1 where there is none. Their product is
    /// that level's `members`.
    pub extents: [u32; MAX_DIMS],
    /// Links between neighbours in the first used dimension; as many groups share each of them.
    pub spacing: u32,
}

impl Group {
    /// A group of one rank, for which every collective is free.
    pub const SINGLE: Self = Self {
        size: 1,
        stride: 1,
        members: [1; MAX_LEVELS],
        siblings: [1; MAX_LEVELS],
        extents: [1; MAX_DIMS],
        spacing: 1,
    };

    /// The outermost level that the group crosses.
    pub fn outermost(&self) -> usize {
        (0..MAX_LEVELS)
            .rev()
            .find(|&i| self.members[i] > 1)
            .unwrap_or(0)
    }

    /// Devices of the group inside one unit of the level below `level`.
    pub fn covered(&self, level: usize) -> u32 {
        self.members.iter().take(level).product()
    }
}
