//! The critical path as stacks, whose weights are its nanoseconds: the process, what it did, and while it was on a CPU
//! the functions that it executed then.

use crate::profile::{CallStack, Folded, Unit};
use crate::record::model::labels::labels;
use crate::record::model::names::process_names;
use crate::record::say::graphs::CRITICAL_PATH;
use crate::record::say::words;
use crate::report::files::title;
use crate::report::flamegraph::{self, FOR_CPU, GraphOptions, ON_CPU};
use crate::report::number::time;
use crate::result::{CriticalPath, Document, Outcome, PathPart, PathWhat, stack_files};
use crate::roles::Skid;
use anyhow::Result;
use std::collections::BTreeMap;

/// A stack of a process: its frames above [`ON_CPU`], root first, and its weight in each slice of the path; without a
/// slice, that of the whole time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StackOnCpu {
    pub frames: Vec<String>,
    pub weights: Vec<(Option<u64>, u64)>,
}

/// Stacks by process.
pub(crate) type StacksOnCpu = BTreeMap<usize, Vec<StackOnCpu>>;

/// The path of `recording` with these stacks.
pub(crate) fn folded(recording: &Document, on_cpu: &StacksOnCpu) -> Option<Folded> {
    let path = recording.path.as_ref()?;
    let (roots, labels) = (process_names(recording), labels(recording));
    let mut folded = Folded::new();
    for part in &path.parts {
        // What is before the first event of a process, and what is not known, is nothing that it did.
        let process = part.process.filter(|_| !matches!(part.what, PathWhat::Begin | PathWhat::Unknown));
        let root = process.and_then(|at| roots.get(at));
        match (root, part.what) {
            (Some(root), PathWhat::OnCpu) => {
                let stacks = part.process.and_then(|at| on_cpu.get(&at)).map_or(&[][..], Vec::as_slice);
                let (sums, rest) = divided(path, part, stacks);
                for (stack, ns) in stacks.iter().zip(sums) {
                    let frames = [root.as_str(), ON_CPU].into_iter().chain(stack.frames.iter().map(String::as_str));
                    folded.add_frames(frames, ns);
                }
                folded.add_frames([root.as_str(), ON_CPU], rest);
            }
            (Some(root), PathWhat::ForCpu) => {
                let by = part.by.as_ref().map(|by| format!("used by {by}"));
                folded.add_frames([root.as_str(), FOR_CPU].into_iter().chain(by.as_deref()), part.ns);
            }
            _ => {
                let kind = (part.process, part.what, part.by.clone());
                let words = words::described(recording, &labels, &kind, false);
                let name = part.process.and_then(|at| labels.get(at)).map(|label| format!("`{label}` "));
                let what = name.and_then(|name| words.strip_prefix(&name)).unwrap_or(&words).replace('`', "");
                folded.add_frames(root.map(|root| root.as_str()).into_iter().chain([what.as_str()]), part.ns);
            }
        }
    }
    Some(folded)
}

/// The time of a part for each of `stacks`, by their weights in the same slice or else in the whole time, and what is left
/// of slices without any. All of it adds up to the part.
fn divided(path: &CriticalPath, part: &PathPart, stacks: &[StackOnCpu]) -> (Vec<u64>, u64) {
    let mut sums = vec![0; stacks.len()];
    let mut by_slice: BTreeMap<Option<u64>, Vec<(usize, u64)>> = BTreeMap::new();
    for (at, stack) in stacks.iter().enumerate() {
        for (slice, weight) in &stack.weights {
            by_slice.entry(*slice).or_default().push((at, *weight));
        }
    }
    let mut rest = 0;
    for (slice, ns) in (0..path.slice_ns.len() as u64).zip(&part.slices) {
        match by_slice.get(&Some(slice)).or_else(|| by_slice.get(&None)) {
            Some(weights) => divide(*ns, weights, &mut sums),
            None => rest = u64::saturating_add(rest, *ns),
        }
    }
    (sums, rest)
}

/// Add `ns` to `sums` by weight. What is rounded off goes to the next one.
fn divide(ns: u64, weights: &[(usize, u64)], sums: &mut [u64]) {
    let total: u128 = weights.iter().map(|(_, weight)| u128::from(*weight)).sum();
    let (mut so_far, mut given) = (0, 0);
    for (at, weight) in weights {
        so_far += u128::from(*weight);
        let until = (u128::from(ns) * so_far / total.max(1)) as u64;
        sums[*at] = u64::saturating_add(sums[*at], until - given);
        given = until;
    }
}

/// Instructions of stages that are one process each, for the whole time: they were counted in another run.
fn counted(outcome: &Outcome) -> StacksOnCpu {
    let mut on_cpu = StacksOnCpu::new();
    if outcome.document.unit != Unit::Instructions {
        return on_cpu;
    }
    for (stage, profile) in (0..).zip(&outcome.profiles) {
        let mut own = outcome.document.recorded.iter().enumerate().filter(|(_, process)| process.stage == stage);
        if let (Some((process, _)), None) = (own.next(), own.next()) {
            let stack = |(stack, weight): (CallStack<'_>, u64)| StackOnCpu {
                frames: stack.frames().map(str::to_owned).collect(),
                weights: vec![(None, weight)],
            };
            on_cpu.insert(process, profile.stacks.iter().map(stack).collect());
        }
    }
    on_cpu
}

/// How it is drawn.
pub fn options(recording: &Document) -> GraphOptions {
    let window = time(recording.processes.window_ns as f64 / 1e9);
    let functions = match recording.unit {
        Unit::Instructions => "; functions by the instructions of each stage",
        _ if recording.collectors.is_empty() => "",
        _ => "; functions by the samples of each process in the same slices of time",
    };
    let subtitle =
        format!("critical path: what the {window} were made of{functions} · Linux {}", recording.kernel.release);
    let skid = recording.collectors.iter().find_map(|collector| collector.skid).unwrap_or(Skid::None);
    GraphOptions {
        processes: process_names(recording),
        ..GraphOptions::new(title(recording), subtitle, Unit::Nanoseconds, skid)
    }
}

/// The files of the path of `outcome`: its stacks and their picture.
pub(crate) fn files(outcome: &Outcome) -> Result<Vec<(String, Vec<u8>)>> {
    let made = outcome.critical_path.is_none().then(|| folded(&outcome.document, &counted(outcome))).flatten();
    let Some(stacks) = outcome.critical_path.as_ref().or(made.as_ref()).filter(|stacks| !stacks.is_empty()) else {
        return Ok(Vec::new());
    };
    let svg = flamegraph::render_path(stacks, &options(&outcome.document))?;
    let mut files = stack_files::files(CRITICAL_PATH, stacks)?;
    files.push((format!("{CRITICAL_PATH}.svg"), svg.into_bytes()));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Processes, RecordedProcess, WaitReason};

    fn recording() -> Document {
        let process = |name: &str| RecordedProcess { name: name.to_owned(), ..RecordedProcess::default() };
        let part = |process, what, slices: [u64; 2]| PathPart {
            process,
            what,
            ns: slices.iter().sum(),
            slices: slices.to_vec(),
            by: (what == PathWhat::ForCpu).then(|| "cc1".to_owned()),
        };
        let timer = PathWhat::Asleep { reason: WaitReason::Timer };
        Document {
            processes: Processes { window_ns: 1000, ..Processes::default() },
            recorded: ["gzip", "sleep"].map(process).to_vec(),
            path: Some(CriticalPath {
                parts: vec![
                    part(Some(0), PathWhat::OnCpu, [100, 401]),
                    part(Some(0), PathWhat::ForCpu, [0, 50]),
                    part(Some(1), timer, [390, 0]),
                    part(Some(1), PathWhat::Begin, [10, 0]),
                    part(None, PathWhat::End, [0, 49]),
                ],
                slice_ns: vec![500; 2],
                ..CriticalPath::default()
            }),
            ..Document::default()
        }
    }

    #[test]
    fn the_width_is_the_wall_time_and_functions_are_those_of_the_same_slice() {
        let stack = |name: &str, weights: &[(u64, u64)]| StackOnCpu {
            frames: vec![name.to_owned()],
            weights: weights.iter().map(|(slice, weight)| (Some(*slice), *weight)).collect(),
        };
        // What fell into the first slice before the path was at gzip's second one does not count there.
        let on_cpu: StacksOnCpu = [(0, vec![stack("deflate", &[(1, 2)]), stack("crc32", &[(1, 1)])])].into();
        let folded = folded(&recording(), &on_cpu).unwrap();
        assert_eq!(
            folded.to_text(),
            "after the last program had ended 49\ngzip;on a CPU 100\ngzip;on a CPU;crc32 134\ngzip;on a CPU;deflate 267\n\
             gzip;waiting for a CPU;used by cc1 50\nsleep;sleeping on a timer 390\nthe start of the programs 10\n"
        );
        assert_eq!(folded.total(), 1000);
    }

    #[test]
    fn instructions_of_a_stage_are_those_of_its_process_at_any_time() {
        let stack = StackOnCpu { frames: vec!["[user]".to_owned()], weights: vec![(None, 7)] };
        let folded = folded(&recording(), &[(0, vec![stack])].into()).unwrap();
        assert!(folded.to_text().contains("gzip;on a CPU;[user] 501\n"), "{}", folded.to_text());
        assert!(super::folded(&Document::default(), &StacksOnCpu::new()).is_none());
    }
}
