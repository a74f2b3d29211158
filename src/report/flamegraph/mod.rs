//! Flame graphs of folded stacks, coloured by role, and differential flame graphs. inferno lays out the frames and
//! provides search and zoom. Names, colours, tooltips and the legend are added afterwards (see [`dress`]), because
//! inferno knows functions, not roles.

mod diff;
mod dress;
mod path;
mod table;
mod tree;
mod waits;

pub use diff::{Differential, Shown, render_diff};
pub use path::{FOR_CPU, ON_CPU, render_path};
pub use waits::{WOKEN_BY, render_waits};

use crate::profile::{Attributor, Folded, ProcessName, Unit};
use crate::roles::{self, Skid};
use crate::util::text::{clean, grouped};
use anyhow::{Context as _, Result, bail};
pub use dress::escape;
use dress::{Dress, Frame, Swatch};
use table::StackTable;
use tree::{FrameNode, FrameTree, MIN_WIDTH_PERCENT};

/// Most characters that fit in one line below the legend.
const NOTE_WIDTH: usize = 160;

/// How to draw.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphOptions {
    /// The large line at the top: the command.
    pub title: String,
    /// The line below it: process, kernel, unit.
    pub subtitle: String,
    /// Name of the weights in tooltips: `samples`.
    pub weights: String,
    /// Cost per KiB of one unit of weight, and its unit (`ns per KiB`). Shown in tooltips if known.
    pub per_kib: Option<(f64, &'static str)>,
    /// Where samples appear that are due while interrupts are off.
    pub skid: Skid,
    /// Merge stacks from their leaves.
    pub reverse: bool,
    /// Grow downwards.
    pub icicle: bool,
    /// Processes whose names are the roots of stacks, in the order in which they are drawn.
    pub processes: Vec<ProcessName>,
}

impl GraphOptions {
    /// An upright flame graph of a collector's profile in `unit`.
    pub fn new(title: impl Into<String>, subtitle: impl Into<String>, unit: Unit, skid: Skid) -> Self {
        Self {
            title: title.into(),
            subtitle: subtitle.into(),
            weights: unit_name(unit).to_owned(),
            per_kib: None,
            skid,
            reverse: false,
            icicle: false,
            processes: vec![ProcessName::WRITER, ProcessName::READER, ProcessName::OTHER],
        }
    }
}

/// Name of the weights in a tooltip.
pub fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Samples => "samples",
        Unit::Instructions => "instructions",
        Unit::Nanoseconds => "ns",
        Unit::EstimatedCycles => "estimated cycles",
    }
}

/// One profile of several processes, each below a frame with its name. Collectors already add this frame; folded files
/// of other programs may not have it.
pub fn together<'a>(processes: impl IntoIterator<Item = (&'a str, &'a Folded)>) -> Folded {
    let mut all = Folded::new();
    for (name, stacks) in processes {
        for (stack, weight) in stacks.iter() {
            let missing = (stack.root() != name).then_some(name);
            all.add_stack(missing.into_iter().chain(stack.frames()), weight);
        }
    }
    all
}

/// The SVG of `stacks`. Equal input gives equal bytes.
pub fn render(stacks: &Folded, options: &GraphOptions) -> Result<String> {
    if stacks.is_empty() {
        bail!("nothing to draw: the profile contains no stacks");
    }
    let attributor = Attributor::new(stacks, options.skid);
    let mut table = StackTable::new(&options.processes, options.reverse);
    let mut by_role: Vec<(&'static roles::Role, u64)> = roles::all().iter().map(|role| (role, 0)).collect();
    let mut interrupts_off = vec![0; by_role.len()];
    // Of each stack, its index in `by_role`.
    let mut role_of: Vec<u8> = Vec::with_capacity(if options.reverse { stacks.len() } else { 0 });
    for (stack, weight) in stacks.iter() {
        table.add(stack, weight);
        let placed = attributor.place_frames(table.last_facts());
        let role = index_of(&by_role, placed.role);
        if let Some((_, total)) = by_role.get_mut(role) {
            *total += weight;
        }
        if placed.interrupts_off {
            interrupts_off[role] += weight;
        }
        if options.reverse {
            role_of.push(role as u8);
        }
    }
    let tree = FrameTree::of(&table, &table.places(|name| name));
    let total = stacks.total();
    // In a reversed graph, the role with the largest weight.
    let heaviest = |node: &FrameNode<'_>| {
        let mut weights = vec![0; by_role.len()];
        for stack in tree.stacks_of(node) {
            weights[usize::from(role_of[*stack as usize])] += table.weight(*stack as usize);
        }
        let most = weights.iter().max().copied().unwrap_or(0);
        // The first of equals, so that the picture is deterministic.
        let index = weights.iter().position(|weight| *weight == most).unwrap_or(0);
        by_role.get(index).map(|(role, _)| *role)
    };
    let paint = |node: &FrameNode<'_>, name: &str, path: &str| -> Frame {
        let role = if options.reverse { heaviest(node) } else { Some(attributor.place_frames(path.split(';')).role) };
        let percent = |weight: u64| 100.0 * weight as f64 / total as f64;
        let mut about = format!("{} {}, {:.2}%", grouped(node.weight), options.weights, percent(node.weight));
        if node.own > 0 && node.own < node.weight {
            about += &format!(", itself {:.2}%", percent(node.own));
        }
        if let Some((scale, unit)) = options.per_kib {
            about += &format!(", {:.2} {unit}", node.weight as f64 * scale);
        }
        if let Some(role) = role {
            about += &format!("; {}", role.title);
        }
        Frame { name: name.to_owned(), about, fill: role.map_or("#dddddd", |role| role.colour).to_owned() }
    };
    let visible = |weight: u64| 100.0 * weight as f64 / total as f64 >= MIN_WIDTH_PERCENT;
    let mut legend: Vec<(&roles::Role, u64)> = by_role.iter().copied().filter(|(_, weight)| visible(*weight)).collect();
    legend.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    let off = |role: &roles::Role| interrupts_off[index_of(&by_role, role)];
    let percent = |weight: u64| format!("{:.1}%", 100.0 * weight as f64 / total as f64);
    let parts: Vec<String> = legend
        .iter()
        .filter(|(role, _)| visible(off(role)))
        .map(|(role, _)| format!("{} {}", role.title, percent(off(role))))
        .collect();
    let dress = Dress {
        frames: tree.painted(paint),
        legend: legend
            .into_iter()
            .map(|(role, weight)| {
                Swatch::new(role.colour, role.title, percent(weight), Some(format!("; {}\\)$", role.title)))
            })
            .collect(),
        note: interrupts_off_note(&parts),
        whole: format!("{} {}, 100%", grouped(total), options.weights),
    };
    dress::dress(&lay_out(&tree, options)?, &dress)
}

/// The lines below the legend: how much of each role's share was spent with interrupts off.
fn interrupts_off_note(parts: &[String]) -> Vec<String> {
    if parts.is_empty() {
        return Vec::new();
    }
    let mut line = "Interrupts off (part of the share, attributed to the caller):".to_owned();
    let mut lines = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let comma = if index + 1 < parts.len() { "," } else { "" };
        if line.chars().count() + part.chars().count() + 2 > NOTE_WIDTH {
            lines.push(std::mem::take(&mut line));
        }
        let space = if line.is_empty() { "" } else { " " };
        line += &format!("{space}{part}{comma}");
    }
    lines.push(line);
    lines
}

fn index_of(by_role: &[(&'static roles::Role, u64)], role: &roles::Role) -> usize {
    by_role.iter().position(|(known, _)| known.id == role.id).unwrap_or(0)
}

/// Let inferno draw `tree`, with each frame named by the index of its node. It draws into memory, because on
/// empty input inferno writes an SVG and then fails, which must not leave a file.
fn lay_out(tree: &FrameTree<'_>, options: &GraphOptions) -> Result<String> {
    use inferno::flamegraph as inferno;
    let mut drawing = inferno::Options::default();
    drawing.title = shortened(&options.title, 96);
    drawing.subtitle = Some(shortened(&options.subtitle, 150));
    drawing.deterministic = true;
    drawing.min_width = MIN_WIDTH_PERCENT;
    drawing.direction = if options.icicle { inferno::Direction::Inverted } else { inferno::Direction::Straight };
    drawing.text_truncate_direction = inferno::TextTruncateDirection::Right;
    drawing.bgcolors = Some(inferno::color::BackgroundColor::Flat(inferno::color::Color { r: 253, g: 253, b: 251 }));
    drawing.no_sort = true;
    let lines = tree.lines();
    let mut svg = Vec::new();
    inferno::from_lines(&mut drawing, lines.iter().map(String::as_str), &mut svg).context("cannot draw the stacks")?;
    String::from_utf8(svg).context("inferno's output is not UTF-8")
}

/// `text`, cleaned, cut to `most` characters.
fn shortened(text: &str, most: usize) -> String {
    let text = clean(text);
    if text.chars().count() <= most {
        return text;
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}
