//! Flame graphs for the page, drawn by [`crate::report::flamegraph`] and compressed.

use crate::compare::measure::{Measure, as_f64};
use crate::compare::model::{Comparison, Method, Section, Step};
use crate::profile::folded::is_kernel_entry;
use crate::profile::{Folded, Unit, listed};
use crate::report::block::PackedGraph;
use crate::report::flamegraph::{self, Differential, GraphOptions, Shown};
use crate::report::html::pack;
use crate::report::number::number;
use crate::roles;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};

/// The target's processes of one column in one graph.
fn together(measure: &Measure) -> Folded {
    flamegraph::together(measure.processes.of_target().map(|(process, measure)| (process.as_str(), &measure.stacks)))
}

fn unit(comparison: &Comparison) -> Unit {
    match comparison.method {
        Method::Exact => Unit::Instructions,
        Method::Timed | Method::Recorded => Unit::Samples,
    }
}

/// Unit per KiB for one unit of weight, over all processes.
fn scale(measure: &Measure) -> f64 {
    measure.total() / as_f64(measure.weight().max(1))
}

/// The plain graph of each column.
pub fn plain(comparison: &Comparison, section: &Section, measures: &[Option<&Measure>]) -> Result<Vec<PackedGraph>> {
    let mut graphs = Vec::new();
    let widest = measures.iter().flatten().map(|measure| measure.total()).fold(0.0, f64::max);
    for (column, measure) in measures.iter().enumerate() {
        let Some(measure) = measure else { continue };
        let stacks = together(measure);
        if stacks.is_empty() {
            continue;
        }
        let label = &comparison.columns[column].label;
        let title = format!("{}: {label}", section.title());
        let options = GraphOptions::new(
            title,
            format!("{}, by role", listed(section.processes())),
            unit(comparison),
            measure.skid,
        );
        let svg = flamegraph::render(&stacks, &options)?;
        graphs.push(PackedGraph {
            id: format!("plain-{}-{column}", slug(&section.title())),
            title: label.clone(),
            about: format!("{} {}; all columns have one scale", number(measure.total()), comparison.per_kib()),
            width: if widest > 0.0 { measure.total() / widest * 100.0 } else { 100.0 },
            file: String::new(),
            packed: pack(&svg)?,
        });
    }
    Ok(graphs)
}

/// What grew (widths of the later profile) and what vanished (widths of the earlier one).
pub fn differential(
    comparison: &Comparison,
    section: &Section,
    step: &Step,
    measures: &[Option<&Measure>],
) -> Result<Vec<PackedGraph>> {
    let (Some(before), Some(after)) = (&measures[step.from], &measures[step.to]) else {
        return Ok(Vec::new());
    };
    let (old, new) = aligned(&together(before), &together(after));
    if old.is_empty() || new.is_empty() {
        return Ok(Vec::new());
    }
    let (from, to) = comparison.step_labels(step);
    let difference = Differential {
        before: &old,
        after: &new,
        before_scale: scale(before),
        after_scale: scale(after),
        unit: match comparison.method {
            Method::Exact if comparison.unit == Method::Exact.unit() => "instructions per KiB",
            Method::Timed => "ns per KiB",
            Method::Exact | Method::Recorded => comparison.per_kib(),
        },
        sums: true,
    };
    let mut graphs = Vec::new();
    let after = (Shown::After, "grew", format!("What {to} does"), after.skid);
    let before = (Shown::Before, "vanished", format!("What {from} did"), before.skid);
    for (shown, name, title, skid) in [after, before] {
        let about = match shown {
            Shown::After => format!("widths of {to}; red takes more than in {from}"),
            Shown::Before => format!("widths of {from}; blue takes less in {to}, or is gone"),
        };
        let options =
            GraphOptions::new(format!("{}: {from} to {to}", section.title()), about.clone(), unit(comparison), skid);
        let svg = flamegraph::render_diff(&difference, shown, &options)?;
        graphs.push(PackedGraph {
            id: format!("{name}-{}-{}-{}", slug(&section.title()), step.from, step.to),
            title,
            about,
            width: 100.0,
            file: String::new(),
            packed: pack(&svg)?,
        });
    }
    Ok(graphs)
}

/// Both profiles without the kernel frames that are callers in only one of them. Otherwise a wrapper that appeared,
/// vanished or now jumps instead of calling would separate everything below it. Frames with self weight stay.
fn aligned(before: &Folded, after: &Folded) -> (Folded, Folded) {
    let (old, new) = (callers(before), callers(after));
    let keep = |folded: &Folded, here: &BTreeMap<String, f64>, there: &BTreeMap<String, f64>| -> Folded {
        let mut kept = Folded::new();
        for (stack, weight) in folded.iter() {
            let frames: Vec<&str> = stack.frames().collect();
            let kernel = frames.iter().position(|frame| is_kernel_entry(frame)).unwrap_or(frames.len());
            let last = frames.len() - 1;
            let share =
                |of: &BTreeMap<String, f64>, frame: &str| of.get(roles::canonical(frame)).copied().unwrap_or(0.0);
            // A twentieth, because the same wrapper may still be called on a rare path.
            let stays = |index: usize, frame: &str| {
                index <= kernel || index == last || share(there, frame) * 20.0 > share(here, frame)
            };
            kept.add_frames(
                frames.iter().enumerate().filter(|(index, frame)| stays(*index, frame)).map(|(_, frame)| *frame),
                weight,
            );
        }
        kept
    };
    (keep(before, &old, &new), keep(after, &new, &old))
}

/// By canonical name: the share of a profile below each function, without its self part.
fn callers(folded: &Folded) -> BTreeMap<String, f64> {
    let total = as_f64(folded.total().max(1));
    let mut shares = BTreeMap::new();
    for (stack, weight) in folded.iter() {
        let frames: Vec<&str> = stack.frames().collect();
        let names: BTreeSet<&str> = frames.iter().take(frames.len() - 1).map(|frame| roles::canonical(frame)).collect();
        for name in names {
            *shares.entry(name.to_owned()).or_insert(0.0) += as_f64(weight) / total;
        }
    }
    shares
}

/// A mode's name for use in an element's id.
pub fn slug(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapper_in_one_run_does_not_separate_its_callees() {
        let of = |text: &str| Folded::parse(text).unwrap();
        let before =
            of("p;do_syscall_64;pipe_write;alloc_old;__alloc_pages 7\np;do_syscall_64;pipe_write;alloc_old 2\n");
        let after = of("p;do_syscall_64;anon_pipe_write;new_a;new_b;__alloc_frozen_pages_noprof 7\n");
        let (old, new) = aligned(&before, &after);
        // The wrapper's self part stays, and no weight is lost.
        assert_eq!(old, of("p;do_syscall_64;pipe_write;__alloc_pages 7\np;do_syscall_64;pipe_write;alloc_old 2\n"));
        assert_eq!(new, of("p;do_syscall_64;anon_pipe_write;__alloc_frozen_pages_noprof 7\n"));
    }
}
