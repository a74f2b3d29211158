//! The functions called by the pipe's system calls, in the order of the code. Call paths do not show what happens
//! between lock and unlock, but the executed code does.

use super::model::{CallList, CallRow};
use crate::arch::{Flow, decoded, flow};
use crate::result::Outcome;
use crate::result::code::{ExecutedCode, ExecutedFunction};
use crate::roles::{self, RoleId};
use std::collections::BTreeMap;

/// Roles of the functions that implement the pipe's system calls.
const BODIES: [RoleId; 4] = [RoleId::PipeWrite, RoleId::PipeRead, RoleId::Vmsplice, RoleId::Splice];

/// One executed call.
#[derive(Debug, Clone, PartialEq)]
struct Call {
    target: String,
    /// Per call of the first process.
    count: f64,
}

/// The lists of all such functions that both runs executed and that differ.
#[must_use]
pub(crate) fn lists(before: &Outcome, after: &Outcome) -> Vec<CallList> {
    let (Some(old), Some(new)) = (&before.code, &after.code) else {
        return Vec::new();
    };
    let first_calls = |outcome: &Outcome| outcome.document.processes.first().calls.max(1);
    let (old_bodies, new_bodies) = (bodies(old), bodies(new));
    let mut lists = Vec::new();
    for (name, function) in &old_bodies {
        let Some(other) = new_bodies.get(name) else { continue };
        let rows = align(&calls(function, old, first_calls(before)), &calls(other, new, first_calls(after)));
        let same = rows.iter().all(|row| row.before.is_some() && row.before == row.after);
        if !same && rows.len() > 1 {
            lists.push(CallList { before: function.name.clone(), after: other.name.clone(), rows });
        }
    }
    lists
}

/// The functions by canonical name; of several with one name, the one that executed most.
fn bodies(code: &ExecutedCode) -> BTreeMap<&str, &ExecutedFunction> {
    let mut found: BTreeMap<&str, &ExecutedFunction> = BTreeMap::new();
    for function in &code.functions {
        if roles::of_frame(&function.name).is_some_and(|role| BODIES.contains(&role.id)) {
            let slot = found.entry(roles::canonical(&function.name)).or_insert(function);
            if function.total() > slot.total() {
                *slot = function;
            }
        }
    }
    found
}

/// Its direct calls in the order of the code. Adjacent calls of one target are summed.
fn calls(function: &ExecutedFunction, code: &ExecutedCode, first_calls: u64) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for instruction in &function.instructions {
        let count = code.of_target(&instruction.counts);
        let called = decoded(&instruction.bytes(), function.address + instruction.offset);
        if count == 0 || flow(&called) != Flow::Call {
            continue;
        }
        let target = called.near_branch_target();
        let Some(callee) = code.functions.iter().find(|callee| callee.address == target) else { continue };
        let count = super::measure::as_f64(count) / super::measure::as_f64(first_calls);
        let target = roles::base_name(&callee.name).to_owned();
        match calls.last_mut() {
            Some(last) if last.target == target => last.count += count,
            _ => calls.push(Call { target, count }),
        }
    }
    calls
}

/// Merge both lists. Equal targets (by canonical name) share a row, by the longest common subsequence.
fn align(before: &[Call], after: &[Call]) -> Vec<CallRow> {
    let equal = |a: &Call, b: &Call| roles::canonical(&a.target) == roles::canonical(&b.target);
    let mut lengths = vec![vec![0u32; after.len() + 1]; before.len() + 1];
    for i in (0..before.len()).rev() {
        for j in (0..after.len()).rev() {
            lengths[i][j] = if equal(&before[i], &after[j]) {
                lengths[i + 1][j + 1] + 1
            } else {
                lengths[i + 1][j].max(lengths[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut rows = Vec::new();
    while i < before.len() || j < after.len() {
        let both = i < before.len() && j < after.len() && equal(&before[i], &after[j]);
        let old_first = i < before.len() && (j == after.len() || lengths[i + 1][j] >= lengths[i][j + 1]);
        let mut row = CallRow { before_name: String::new(), after_name: String::new(), before: None, after: None };
        if both || old_first {
            row.before_name.clone_from(&before[i].target);
            row.before = Some(before[i].count);
            i += 1;
        }
        if both || !old_first {
            row.after_name.clone_from(&after[j].target);
            row.after = Some(after[j].count);
            j += 1;
        }
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(calls: &[(&str, f64)]) -> Vec<Call> {
        calls.iter().map(|(target, count)| Call { target: (*target).to_owned(), count: *count }).collect()
    }

    #[test]
    fn an_allocation_before_the_lock_is_a_row_of_its_own() {
        let before = list(&[("mutex_lock", 1.0), ("__alloc_pages", 56.0), ("mutex_unlock", 1.0)]);
        let after = list(&[
            ("__alloc_frozen_pages_noprof", 8.0),
            ("mutex_lock", 1.0),
            ("__alloc_frozen_pages_noprof", 48.0),
            ("mutex_unlock", 1.0),
        ]);
        let rows = align(&before, &after);
        let shown: Vec<(&str, Option<f64>, Option<f64>)> =
            rows.iter().map(|row| (row.after_name.as_str(), row.before, row.after)).collect();
        assert_eq!(
            shown,
            [
                ("__alloc_frozen_pages_noprof", None, Some(8.0)),
                ("mutex_lock", Some(1.0), Some(1.0)),
                ("__alloc_frozen_pages_noprof", Some(56.0), Some(48.0)),
                ("mutex_unlock", Some(1.0), Some(1.0)),
            ]
        );
        assert_eq!(rows[2].before_name, "__alloc_pages");
    }

    #[test]
    fn nothing_is_lost_in_lists_without_anything_in_common() {
        let rows = align(&list(&[("a", 1.0), ("b", 2.0)]), &list(&[("c", 3.0)]));
        assert_eq!(rows.len(), 3);
        assert!(align(&[], &[]).is_empty());
    }
}
