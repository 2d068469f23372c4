//! What does an MSCCL XML file say?

use super::Msccl;
use crate::error::{Error, Result};
use roxmltree::{Document, Node};
use std::collections::BTreeMap;
use std::str::FromStr;

/// One step of a thread block.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) line: u32,
    pub(super) rank: u32,
    /// Where it sends, if it does.
    pub(super) to: Option<u32>,
    /// Chunks that it moves.
    pub(super) count: u32,
    /// Steps that must be done before, by index.
    pub(super) after: Vec<usize>,
    /// The step whose message it receives, if it does.
    pub(super) source: Option<usize>,
}

/// Names of what a step can do, and whether it receives and sends.
const KINDS: [(&str, bool, bool); 9] = [
    ("s", false, true),
    ("r", true, false),
    ("rcs", true, true),
    ("rrc", true, false),
    ("rrs", true, true),
    ("rrcs", true, true),
    ("cpy", false, false),
    ("re", false, false),
    ("nop", false, false),
];

/// Messages between two ranks on one channel pair up in order: (from, to, channel).
type Channel = (u32, u32, u32);

/// Steps and what still has to be joined up.
#[derive(Default)]
struct ParsedSteps {
    steps: Vec<Step>,
    /// Index of each step by rank, thread block and number.
    places: BTreeMap<(u32, u32, u32), usize>,
    /// Step, and the rank, thread block and number that it waits for.
    waits: Vec<(usize, (u32, u32, u32))>,
    sends: BTreeMap<Channel, Vec<usize>>,
    receives: BTreeMap<Channel, Vec<usize>>,
}

/// The algorithm in `text`, its steps as they are listed.
pub(super) fn algorithm(text: &str) -> Result<Msccl> {
    let document = Document::parse(text).map_err(|wrong| {
        let line = wrong.pos().row;
        Error::inconsistent(format!("line {line}: no well-formed XML: {wrong}"))
    })?;
    let root = document.root_element();
    if !root.has_tag_name("algo") {
        return Err(refused(
            root,
            "root element",
            root.tag_name().name(),
            "algo",
        ));
    }
    let (ranks, chunks) = (
        number(root, "ngpus", 1)?,
        number(root, "nchunksperloop", 1)?,
    );
    let mut found = ParsedSteps::default();
    let mut seen = vec![false; usize::try_from(ranks.min(MOST_RANKS)).unwrap_or(0)];
    for gpu in elements(root, "gpu")? {
        let rank: u32 = number(gpu, "id", 0)?;
        match seen.get_mut(rank as usize) {
            Some(once) if !*once => *once = true,
            _ => {
                let allowed = format!("0 to {}, each once", ranks - 1);
                return Err(refused(gpu, "gpu.id", rank, allowed));
            }
        }
        for block in elements(gpu, "tb")? {
            found.block(block, (rank, ranks))?;
        }
    }
    if let Some(missing) = seen.iter().position(|seen| !seen) {
        return Err(refused(
            root,
            "gpu",
            format!("none with id {missing}"),
            "one for each rank",
        ));
    }
    found.join()?;
    Ok(Msccl {
        name: root.attribute("name").unwrap_or_default().to_owned(),
        collective: root.attribute("coll").unwrap_or_default().to_owned(),
        ranks,
        chunks,
        steps: found.steps,
    })
}

/// A thread block: whose it is, and with whom it talks.
struct Block<'a> {
    node: Node<'a, 'a>,
    rank: u32,
    id: u32,
    channel: u32,
    to: Option<u32>,
    from: Option<u32>,
}

/// More ranks than any file lists; keeps a wrong count from taking all memory.
const MOST_RANKS: u32 = 1 << 20;

impl ParsedSteps {
    /// Takes up the steps of one thread block, each after the one before.
    fn block(&mut self, node: Node, (rank, ranks): (u32, u32)) -> Result<()> {
        let block = Block {
            node,
            rank,
            id: number(node, "id", 0)?,
            channel: number(node, "chan", 0)?,
            to: peer(node, "send", ranks)?,
            from: peer(node, "recv", ranks)?,
        };
        let mut before = None;
        for (expected, node) in (0_u32..).zip(elements(node, "step")?) {
            let place = number(node, "s", 0)?;
            if place != expected {
                let allowed = format!("{expected}, the next in order");
                return Err(refused(node, "step.s", place, allowed));
            }
            let index = self.steps.len();
            if (self.places.insert((rank, block.id, place), index)).is_some() {
                return Err(refused(block.node, "tb.id", block.id, "each once in a gpu"));
            }
            let mut step = self.step(node, &block)?;
            step.after.extend(before);
            self.steps.push(step);
            before = Some(index);
        }
        Ok(())
    }

    /// Reads one step and enters its messages and its wait under the index that it will have.
    fn step(&mut self, node: Node, block: &Block) -> Result<Step> {
        let (index, rank) = (self.steps.len(), block.rank);
        let kind = attribute(node, "type")?;
        let Some(&(_, receives, sends)) = KINDS.iter().find(|known| known.0 == kind) else {
            let field = format!("line {}: step.type", line(node));
            return Err(Error::unknown(&field, kind, KINDS.map(|known| known.0)));
        };
        if receives {
            let allowed = "a rank: a step receives";
            let from = block
                .from
                .ok_or_else(|| refused(block.node, "tb.recv", -1, allowed))?;
            let channel = (from, rank, block.channel);
            self.receives.entry(channel).or_default().push(index);
        }
        if sends {
            let allowed = "a rank: a step sends";
            let to = block
                .to
                .ok_or_else(|| refused(block.node, "tb.send", -1, allowed))?;
            let channel = (rank, to, block.channel);
            self.sends.entry(channel).or_default().push(index);
        }
        if let Some(wait) = wait(node)? {
            self.waits.push((index, (rank, wait.0, wait.1)));
        }
        let moves = receives || sends;
        Ok(Step {
            line: line(node),
            rank,
            to: block.to.filter(|_| sends),
            count: if moves { number(node, "cnt", 1)? } else { 0 },
            after: Vec::new(),
            source: None,
        })
    }

    /// Turns named waits into indices and pairs the messages of each channel.
    fn join(&mut self) -> Result<()> {
        for &(index, place) in &self.waits {
            let Some(&step) = self.places.get(&place) else {
                let got = format!("{}, {}", place.1, place.2);
                let line = self.steps[index].line;
                let field = format!("line {line}: step.depid, step.deps");
                return Err(Error::invalid(field, got, "a step of the same gpu"));
            };
            self.steps[index].after.push(step);
        }
        let none = Vec::new();
        for (channel, sends) in &self.sends {
            let receives = self.receives.get(channel).unwrap_or(&none);
            for (i, &send) in sends.iter().enumerate() {
                let Some(&receive) = receives.get(i) else {
                    return Err(self.unpaired(send, "is sent", *channel));
                };
                let (sent, taken) = (self.steps[send].count, self.steps[receive].count);
                if sent != taken {
                    let field = format!("line {}: step.cnt", self.steps[receive].line);
                    let allowed = format!("{sent}, as line {} sends", self.steps[send].line);
                    return Err(Error::invalid(field, taken, allowed));
                }
                self.steps[receive].source = Some(send);
            }
        }
        for (channel, receives) in &self.receives {
            let sent = self.sends.get(channel).map_or(0, Vec::len);
            if let Some(&receive) = receives.get(sent) {
                return Err(self.unpaired(receive, "is awaited", *channel));
            }
        }
        Ok(())
    }

    fn unpaired(&self, step: usize, what: &str, (from, to, channel): Channel) -> Error {
        let line = self.steps[step].line;
        Error::inconsistent(format!(
            "line {line}: a message from rank {from} to {to} on channel {channel} {what} \
             that has no counterpart"
        ))
    }
}

/// Thread block and number of the step that must be done before.
fn wait(node: Node) -> Result<Option<(u32, u32)>> {
    let block: i64 = number(node, "depid", -1)?;
    if block < 0 {
        return Ok(None);
    }
    Ok(Some((number(node, "depid", 0)?, number(node, "deps", 0)?)))
}

fn peer(block: Node, name: &str, ranks: u32) -> Result<Option<u32>> {
    let peer: i64 = number(block, name, -1)?;
    if peer < 0 {
        return Ok(None);
    }
    let known = u32::try_from(peer).ok().filter(|&peer| peer < ranks);
    let known = known.ok_or_else(|| {
        refused(
            block,
            &format!("tb.{name}"),
            peer,
            format!("-1 to {}", ranks - 1),
        )
    });
    known.map(Some)
}

/// The children of `parent`, all named `name`.
fn elements<'a>(parent: Node<'a, 'a>, name: &str) -> Result<Vec<Node<'a, 'a>>> {
    let children: Vec<Node> = parent.children().filter(Node::is_element).collect();
    match children.iter().find(|child| !child.has_tag_name(name)) {
        Some(other) => Err(refused(*other, "element", other.tag_name().name(), name)),
        None => Ok(children),
    }
}

fn attribute<'a>(node: Node<'a, 'a>, name: &str) -> Result<&'a str> {
    node.attribute(name).ok_or_else(|| {
        refused(
            node,
            &field(node, name),
            "nothing",
            "an attribute of this name",
        )
    })
}

/// An attribute that is a whole number of at least `least`.
fn number<T: FromStr + PartialOrd + Copy + std::fmt::Display>(
    node: Node,
    name: &str,
    least: T,
) -> Result<T> {
    let text = attribute(node, name)?;
    let value = text.trim().parse().ok().filter(|value| *value >= least);
    value.ok_or_else(|| {
        let allowed = format!("a whole number of at least {least}");
        refused(node, &field(node, name), text, allowed)
    })
}

fn field(node: Node, name: &str) -> String {
    format!("{}.{name}", node.tag_name().name())
}

fn line(node: Node) -> u32 {
    node.document().text_pos_at(node.range().start).row
}

fn refused(node: Node, field: &str, got: impl ToString, allowed: impl Into<String>) -> Error {
    Error::invalid(format!("line {}: {field}", line(node)), got, allowed)
}
