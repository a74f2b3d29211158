//! Differential flame graphs. Frames have the width of one of the two profiles, so one picture cannot show both what
//! grew and what vanished. Hence there are two, [`Shown::After`] and [`Shown::Before`], with the same colours.

use super::dress::{self, Dress, Frame, Swatch};
use super::table::StackTable;
use super::tree::{FrameNode, FrameTree};
use super::{GraphOptions, lay_out};
use crate::profile::Folded;
use crate::roles;
use anyhow::{Result, bail};

/// The profile that gives frames their width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    Before,
    After,
}

/// Two profiles to compare.
#[derive(Debug, Clone, Copy)]
pub struct Differential<'a> {
    pub before: &'a Folded,
    pub after: &'a Folded,
    /// One unit of weight of `before`, in `unit`.
    pub before_scale: f64,
    /// One unit of weight of `after`, in `unit`.
    pub after_scale: f64,
    /// Unit of the differences: `instructions per KiB`, `% of all`.
    pub unit: &'a str,
    /// Whether the totals have a meaning; not if each is 100 %.
    pub sums: bool,
}

impl<'a> Differential<'a> {
    /// Compare shares. Profiles of unknown length allow nothing else.
    pub fn of_shares(before: &'a Folded, after: &'a Folded) -> Self {
        let scale = |folded: &Folded| 100.0 / folded.total().max(1) as f64;
        Self { before, after, before_scale: scale(before), after_scale: scale(after), unit: "% of all", sums: false }
    }
}

const GREW: [u8; 3] = [0xd7, 0x30, 0x27];
const SHRANK: [u8; 3] = [0x35, 0x78, 0xb9];
const SAME: [u8; 3] = [0xec, 0xec, 0xe8];

/// The SVG of `difference`, with the widths of the profile `shown`, coloured by the change of their self part. A
/// renamed function is one frame; frames are matched by their whole call path.
pub fn render_diff(difference: &Differential<'_>, shown: Shown, options: &GraphOptions) -> Result<String> {
    let (here, there) = match shown {
        Shown::Before => (difference.before, difference.after),
        Shown::After => (difference.after, difference.before),
    };
    if here.is_empty() {
        bail!("nothing to draw: the profile contains no stacks");
    }
    let mut table = StackTable::new(&options.processes, options.reverse);
    for (stack, weight) in here.iter() {
        table.add(stack, weight);
    }
    let mut others = Vec::with_capacity(there.len());
    for (stack, weight) in there.iter() {
        table.add(stack, 0);
        others.push(weight);
    }
    let weights = TwoWeights { table: &table, others, difference, shown };
    let places = table.places(roles::canonical);
    let tree = FrameTree::of(&table, &places);
    let grouped = table.grouped(&places);
    let most = grouped
        .chunk_by(|one, other| table.same_path(*one, *other, &places))
        .map(|stacks| weights.of(stacks).difference().abs())
        .fold(0.0, f64::max);
    let total = |folded: &Folded, scale: f64| folded.total() as f64 * scale;
    let whole = BeforeAfter {
        before: total(difference.before, difference.before_scale),
        after: total(difference.after, difference.after_scale),
    };
    let frames = tree.painted(|node: &FrameNode<'_>, name, _| {
        let stacks = tree.stacks_of(node);
        let with_callees = weights.of(stacks);
        let own = weights.of(stacks.iter().filter(|stack| table.depth(**stack as usize) == node.depth + 1));
        let mut about = format!("{} {}", with_callees.text(), difference.unit);
        if own.difference() != with_callees.difference() || own != with_callees {
            about += &format!("; itself {}", own.text());
        }
        if let Some(renamed) = weights.other_name(stacks, node.depth).filter(|other| *other != name) {
            let when = if shown == Shown::After { "before" } else { "after" };
            about += &format!("; {when}: {renamed}");
        }
        Frame { name: name.to_owned(), about, fill: colour(own.difference(), most) }
    });
    let swatch = |colour: [u8; 3], label: &str, value: &str| Swatch::new(&hex(colour), label, value, None);
    let widths = if shown == Shown::After { "after" } else { "before" };
    let dress = Dress {
        frames,
        legend: vec![
            swatch(GREW, "itself grew", ""),
            swatch(SAME, "as before", ""),
            swatch(SHRANK, "itself shrank", ""),
            swatch([0xff, 0xff, 0xff], "widths:", widths),
        ],
        note: Vec::new(),
        whole: if difference.sums {
            format!("{} {}", whole.text(), difference.unit)
        } else {
            "100 % of both".to_owned()
        },
    };
    let mut options = options.clone();
    if difference.sums {
        options.subtitle = format!("{} · {} {}", options.subtitle, whole.text(), difference.unit);
    }
    dress::dress(&lay_out(&tree, &options)?, &dress)
}

/// A weight before and after, in the difference's unit.
#[derive(Debug, Clone, Copy, PartialEq)]
struct BeforeAfter {
    before: f64,
    after: f64,
}

impl BeforeAfter {
    fn difference(self) -> f64 {
        self.after - self.before
    }

    fn text(self) -> String {
        let number = |value: f64| {
            if value.abs() >= 1000.0 { format!("{value:.0}") } else { format!("{value:.2}") }
        };
        if self.before == self.after {
            return format!("{} as before", number(self.after));
        }
        let sign = if self.difference() > 0.0 { "+" } else { "-" };
        let change = number(self.difference().abs());
        let sign = if change == "0.00" { "±" } else { sign };
        format!("{} → {}, {sign}{change}", number(self.before), number(self.after))
    }
}

/// The weights of both profiles. The table has first the stacks of the profile shown, then, without weight, those of the
/// other one.
struct TwoWeights<'t, 'a> {
    table: &'t StackTable<'a>,
    others: Vec<u64>,
    difference: &'t Differential<'t>,
    shown: Shown,
}

impl<'a> TwoWeights<'_, 'a> {
    /// The index of a stack in the profile that is not shown.
    fn other(&self, stack: u32) -> Option<usize> {
        (stack as usize).checked_sub(self.table.len() - self.others.len())
    }

    fn of<'s>(&self, stacks: impl IntoIterator<Item = &'s u32>) -> BeforeAfter {
        let (mut here, mut there) = (0, 0);
        for stack in stacks {
            match self.other(*stack) {
                Some(other) => there += self.others[other],
                None => here += self.table.weight(*stack as usize),
            }
        }
        let (before, after) = if self.shown == Shown::After { (there, here) } else { (here, there) };
        BeforeAfter {
            before: before as f64 * self.difference.before_scale,
            after: after as f64 * self.difference.after_scale,
        }
    }

    /// The name that the frame of `stacks` at `depth` has in the profile that is not shown.
    fn other_name(&self, stacks: &[u32], depth: usize) -> Option<&'a str> {
        let first = stacks.iter().filter(|stack| self.other(**stack).is_some()).min()?;
        Some(self.table.name(*first as usize, depth))
    }
}

/// Interpolate between white and full colour by the square root of the relative difference, so that small ones are
/// visible.
fn colour(difference: f64, most: f64) -> String {
    if difference == 0.0 || most == 0.0 {
        return hex(SAME);
    }
    let full = if difference > 0.0 { GREW } else { SHRANK };
    let part = (difference.abs() / most).sqrt().clamp(0.0, 1.0);
    let mix = |from: u8, to: u8| (f64::from(from) + (f64::from(to) - f64::from(from)) * part).round() as u8;
    hex([mix(SAME[0], full[0]), mix(SAME[1], full[1]), mix(SAME[2], full[2])])
}

fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}
