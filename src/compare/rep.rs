//! Bytes that `rep` instructions copy or clear. Such an instruction counts once, however many bytes it moves, so a count of
//! instructions does not show them.

use super::exact;
use super::measure::{Measure, as_f64};
use super::model::{RepChange, Word};
use crate::collect::insn::class;
use crate::result::Outcome;
use crate::roles::{self, SCHEDULING};
use crate::util::decision::{CountChange, Decision};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that one instruction of plain code moves.
const WORD: f64 = 8.0;

/// Functions with a smaller part of the change are not named.
const SMALL_FUNCTION: f64 = 0.05;

/// What the `rep` instructions of a column's processes moved, per KiB, without the roles that depend on scheduling.
#[derive(Debug, Clone, Default)]
pub struct RepMeasure {
    pub bytes: f64,
    /// In each window; empty in runs of earlier versions, which stored that of the shown window only.
    windows: Vec<f64>,
    /// By canonical name, with scheduling: the kernel's own name, and its bytes.
    functions: BTreeMap<String, (String, f64)>,
}

impl RepMeasure {
    /// Of the runs of a column. `None` if one has no classes of instructions.
    pub fn of(runs: &[&Outcome]) -> Option<Self> {
        let mut all = Self::default();
        let kib = |bytes: u64| as_f64(bytes.max(1)) / 1024.0;
        let total: f64 = runs.iter().map(|run| kib(run.document.processes.first().bytes)).sum();
        for run in runs {
            let document = &run.document;
            for share in document.attribution.of_target().filter(|share| !SCHEDULING.contains(&share.role)) {
                all.bytes += as_f64(share.cycles.as_ref()?.classes.rep_bytes) / total;
            }
            let windows = document.ensemble.iter().flat_map(|ensemble| &ensemble.windows);
            let sizes = document.runs.iter().map(|run| kib(run.processes.first().bytes));
            all.windows.extend(windows.zip(sizes).filter_map(|(window, kib)| Some(as_f64(window.rep_bytes?) / kib)));
            for (code, function) in run.code.iter().flat_map(|code| code.functions.iter().map(move |one| (code, one))) {
                let bytes = class::of_function(code, function).rep_bytes;
                if bytes > 0 {
                    let name = roles::canonical(&function.name).to_owned();
                    let own = || (roles::base_name(&function.name).to_owned(), 0.0);
                    all.functions.entry(name).or_insert_with(own).1 += as_f64(bytes) / total;
                }
            }
        }
        Some(all)
    }

    /// Instructions without scheduling, in the profile and in each of its windows, if a `rep` instruction counted once for
    /// each word that it moves.
    fn weighed(&self, profile: &Measure) -> (f64, Vec<f64>) {
        let counted = profile.of_windows(&Measure::without_scheduling);
        let known = counted.len() == self.windows.len();
        let bytes = |window: usize| if known { self.windows[window] } else { self.bytes };
        let windows = counted.iter().enumerate().map(|(window, own)| own + bytes(window) / WORD).collect();
        (profile.without_scheduling() + self.bytes / WORD, windows)
    }
}

/// What changed between two columns. `margin`: changes within it do not matter, as a part of the instructions.
pub fn change([before, after]: [&RepMeasure; 2], profiles: [&Measure; 2], margin: f64, is_equal: bool) -> RepChange {
    let (old, old_windows) = before.weighed(profiles[0]);
    let (new, new_windows) = after.weighed(profiles[1]);
    let doubt = exact::doubt(profiles, &|doubt| doubt.total);
    let count = CountChange::new([old, new], [&old_windows, &new_windows], profiles[0].order, doubt, margin);
    let delta = after.bytes - before.bytes;
    let names: BTreeSet<&String> = before.functions.keys().chain(after.functions.keys()).collect();
    let function = |name: &String| {
        let [old, new] = [before, after].map(|side| side.functions.get(name));
        let shown = new.or(old).map_or_else(|| name.clone(), |(own, _)| own.clone());
        (shown, new.map_or(0.0, |(_, bytes)| *bytes) - old.map_or(0.0, |(_, bytes)| *bytes))
    };
    let mut functions: Vec<(String, f64)> = names.into_iter().map(function).collect();
    functions.retain(|(_, change)| change.abs() >= SMALL_FUNCTION * delta.abs() && *change != 0.0);
    functions.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    RepChange {
        before: before.bytes,
        after: after.bytes,
        matters: (delta / WORD).abs() > margin * old,
        word: Word::of_counts(if is_equal { count.decision } else { Decision::Undecided }),
        weighed: [old, new],
        uncertainty: count.half,
        functions,
    }
}
