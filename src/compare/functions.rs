//! Match the functions of two runs: by role and canonical name, then by call path. Functions of only one run are kept.

use super::exact;
use super::function_weights::{FunctionWeight, Key};
use super::measure::Measure;
use super::model::{FunctionRow, Inlined, Matched, Method, PathRow, RoleRow};
use super::stripped;
use crate::profile::{ByProcess, ProcessName};
use crate::roles::{self, RoleId};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of rows; the rest is counted and summed.
pub const KEPT: usize = 80;
/// Call paths kept per row.
const PATHS: usize = 2;

/// The changed rows, largest change of self weight first; the number of rows left out; their sum.
pub fn rows(before: &Measure, after: &Measure, method: Method) -> (Vec<FunctionRow>, usize, f64) {
    let mut partners = partners_by_path(before, after);
    let placed = stripped::partners(before, after);
    partners.extend(&placed);
    let keys: BTreeSet<&Key> = before.functions.keys().chain(after.functions.keys()).collect();
    let mut rows: Vec<FunctionRow> = Vec::new();
    let absorbed: BTreeSet<&Key> = partners.values().copied().collect();
    for key in keys {
        if !key.process.is_of_target() || (absorbed.contains(key) && !before.functions.contains_key(key)) {
            continue;
        }
        let partner = partners.get(key).copied();
        let old = before.functions.get(key);
        // A place in a stripped program can be that of another function after.
        let own = after.functions.get(key).filter(|_| !absorbed.contains(key));
        let new = partner.map_or(own, |partner| after.functions.get(partner));
        if !changed(old, new, before, after, method) {
            continue;
        }
        let mut row = row(key, old, new, before, after);
        row.certain =
            method != Method::Exact || exact::is_certain_function(before, after, [key, partner.unwrap_or(key)]);
        if partner.is_some() {
            row.matched = if placed.contains_key(key) { Matched::Place } else { Matched::Path };
        }
        rows.push(row);
    }
    mark_moved(&mut rows);
    let order = |row: &FunctionRow| (row.self_delta.abs(), row.inclusive_delta.abs());
    rows.sort_by(|a, b| {
        let ((a1, a2), (b1, b2)) = (order(a), order(b));
        let place = |row: &FunctionRow| before.processes.place(row.process).or(after.processes.place(row.process));
        b1.total_cmp(&a1)
            .then(b2.total_cmp(&a2))
            .then_with(|| a.name.cmp(&b.name))
            .then_with(|| a.role.cmp(&b.role))
            .then_with(|| place(a).cmp(&place(b)))
    });
    let beyond = rows.split_off(rows.len().min(KEPT));
    let left: Vec<&FunctionRow> = beyond.iter().filter(|row| row.self_delta != 0.0).collect();
    let sum = left.iter().map(|row| row.self_delta).sum::<f64>() + 0.0;
    (rows, left.len(), sum)
}

/// Roles of all processes, largest change first; roles without weight are left out.
pub(crate) fn role_rows(before: &Measure, after: &Measure, certain: impl Fn(RoleId) -> bool) -> Vec<RoleRow> {
    let row = |id: RoleId| {
        let delta = |process| after.role(process, id) - before.role(process, id);
        let mut deltas: ByProcess<f64> = ByProcess::new();
        for (process, _) in before.processes.of_target().chain(after.processes.of_target()) {
            deltas.insert(process, delta(process));
        }
        let role = roles::by_id(id);
        RoleRow {
            role: id,
            title: role.title.to_owned(),
            colour: role.colour.to_owned(),
            before: before.of_role(id),
            after: after.of_role(id),
            delta: after.of_role(id) - before.of_role(id),
            deltas,
            certain: certain(id),
            uncertainty: None,
            moved: false,
            work: None,
        }
    };
    let mut rows: Vec<RoleRow> = before.roles().union(&after.roles()).copied().map(row).collect();
    rows.sort_by(|a, b| b.delta.abs().total_cmp(&a.delta.abs()).then_with(|| a.role.cmp(&b.role)));
    rows
}

/// Whether a row differs: exactly for counts, by more than rounding for times.
fn changed(
    old: Option<&FunctionWeight>,
    new: Option<&FunctionWeight>,
    before: &Measure,
    after: &Measure,
    method: Method,
) -> bool {
    let pair = |of: fn(&FunctionWeight) -> u64| (old.map_or(0, of), new.map_or(0, of));
    let differ = |(a, b): (u64, u64)| match method {
        Method::Exact => u128::from(a) * u128::from(after.bytes()) != u128::from(b) * u128::from(before.bytes()),
        Method::Timed | Method::Recorded => a != b,
    };
    differ(pair(|entry| entry.own)) || differ(pair(|entry| entry.whole))
}

fn row(
    key: &Key,
    old: Option<&FunctionWeight>,
    new: Option<&FunctionWeight>,
    before: &Measure,
    after: &Measure,
) -> FunctionRow {
    let values = |measure: &Measure, entry: Option<&FunctionWeight>| {
        let (own, whole) = entry.map_or((0, 0), |entry| (entry.own, entry.whole));
        [
            measure.per_kib(key.process, own),
            measure.per_kib(key.process, whole),
            measure.per_call(key.process, own),
            measure.per_call(key.process, whole),
        ]
    };
    let (a, b) = (values(before, old), values(after, new));
    let names =
        |entry: Option<&FunctionWeight>| entry.map(|entry| entry.names.iter().cloned().collect()).unwrap_or_default();
    let (before_names, after_names): (Vec<String>, Vec<String>) = (names(old), names(new));
    let matched = match (old.is_some(), new.is_some()) {
        (true, false) => Matched::OnlyBefore,
        (false, true) => Matched::OnlyAfter,
        _ if before_names == after_names => Matched::Name,
        _ => Matched::Rename,
    };
    FunctionRow {
        process: key.process,
        role: key.role,
        name: key.name.clone(),
        before_names,
        after_names,
        matched,
        self_before: a[0],
        self_after: b[0],
        self_delta: b[0] - a[0],
        inclusive_before: a[1],
        inclusive_after: b[1],
        inclusive_delta: b[1] - a[1],
        call_before: a[2],
        call_after: b[2],
        inclusive_call_before: a[3],
        inclusive_call_after: b[3],
        certain: true,
        paths: paths(key.process, old, new, before, after),
        inlined: Vec::new(),
    }
}

fn paths(
    process: ProcessName,
    old: Option<&FunctionWeight>,
    new: Option<&FunctionWeight>,
    before: &Measure,
    after: &Measure,
) -> Vec<PathRow> {
    let mut all: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (path, weight) in old.into_iter().flat_map(|entry| &entry.paths) {
        all.entry(path).or_default().0 += before.per_kib(process, *weight);
    }
    for (path, weight) in new.into_iter().flat_map(|entry| &entry.paths) {
        all.entry(path).or_default().1 += after.per_kib(process, *weight);
    }
    let mut rows: Vec<PathRow> = all
        .into_iter()
        .filter(|(_, (before, after))| before.total_cmp(after).is_ne())
        .map(|(path, (before, after))| PathRow { path: path.to_owned(), before, after })
        .collect();
    rows.sort_by(|a, b| (b.after - b.before).abs().total_cmp(&(a.after - a.before).abs()).then(a.path.cmp(&b.path)));
    rows.truncate(PATHS);
    rows
}

/// Enter the inlined functions in their callers' rows.
pub(crate) fn mark_inlined(rows: &mut [FunctionRow], inlined: &[Inlined]) {
    for row in rows.iter_mut().filter(|row| row.self_before > 0.0 && row.self_after > 0.0) {
        let mut names: Vec<&Inlined> = inlined.iter().filter(|one| one.caller == row.name).collect();
        names.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        row.inlined = names.into_iter().map(|one| one.function.clone()).collect();
    }
}

/// Mark rows of one run whose function the other run has under another role.
fn mark_moved(rows: &mut [FunctionRow]) {
    let of_one_run = |matched| -> BTreeSet<(ProcessName, String)> {
        rows.iter().filter(|row| row.matched == matched).map(|row| (row.process, row.name.clone())).collect()
    };
    let gone = of_one_run(Matched::OnlyBefore);
    let come = of_one_run(Matched::OnlyAfter);
    for row in rows {
        let twin = (row.process, row.name.clone());
        match row.matched {
            Matched::OnlyBefore if come.contains(&twin) => row.matched = Matched::Moved,
            Matched::OnlyAfter if gone.contains(&twin) => row.matched = Matched::Moved,
            _ => {}
        }
    }
}

/// Functions that are probably one under two names: each in one run only, with the same process, role and a common
/// caller, and with half of their words in common. Each is matched at most once, the most similar first.
pub(crate) fn partners_by_path<'a>(before: &'a Measure, after: &'a Measure) -> BTreeMap<&'a Key, &'a Key> {
    let gone: Vec<(&Key, &FunctionWeight)> =
        before.functions.iter().filter(|(key, _)| !after.functions.contains_key(key)).collect();
    let come: Vec<(&Key, &FunctionWeight)> =
        after.functions.iter().filter(|(key, _)| !before.functions.contains_key(key)).collect();
    let mut candidates: Vec<(f64, &Key, &Key)> = Vec::new();
    for (old_key, old) in &gone {
        for (new_key, new) in &come {
            let same_place = old_key.process == new_key.process
                && old_key.role == new_key.role
                && old.callers.intersection(&new.callers).next().is_some();
            if same_place {
                let alike = likeness(&old_key.name, &new_key.name);
                if alike >= ALIKE {
                    candidates.push((alike, old_key, new_key));
                }
            }
        }
    }
    candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)).then(a.2.cmp(b.2)));
    let mut partners: BTreeMap<&Key, &Key> = BTreeMap::new();
    let mut taken: BTreeSet<&Key> = BTreeSet::new();
    for (_, old, new) in candidates {
        if !partners.contains_key(old) && taken.insert(new) {
            partners.insert(old, new);
        }
    }
    partners
}

/// [`likeness`] from which two names may be one function's.
const ALIKE: f64 = 0.5;

/// Whether two functions of one caller are probably one under two names.
pub fn alike(a: &str, b: &str) -> bool {
    likeness(a, b) >= ALIKE
}

/// Similarity of two names: common words divided by all words. Underscores separate words.
fn likeness(a: &str, b: &str) -> f64 {
    let words = |name: &str| -> BTreeSet<String> {
        name.split(['_', '.']).filter(|word| !word.is_empty() && *word != "noprof").map(str::to_owned).collect()
    };
    let (a, b) = (words(a), words(b));
    let shared = u32::try_from(a.intersection(&b).count()).unwrap_or(u32::MAX);
    let all = u32::try_from(a.union(&b).count()).unwrap_or(u32::MAX).max(1);
    f64::from(shared) / f64::from(all)
}
