//! The functions called by the pipe's system calls, in the order of the code. Call paths do not show what happens
//! between lock and unlock, but the executed code does.

use super::measure::as_f64;
use super::model::{CallList, CallRow};
use crate::arch::{Flow, decoded};
use crate::result::Document;
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

/// A function that implements a system call of the pipe: its name, and its direct calls in the order of the code.
#[derive(Debug, Clone, PartialEq)]
pub struct CallerBody {
    name: String,
    calls: Vec<Call>,
}

/// By canonical name.
pub(crate) type Bodies = BTreeMap<String, CallerBody>;

/// The functions of `code`, that of `document`; of several with one name, the one that executed most.
pub(crate) fn bodies(code: &ExecutedCode, document: &Document) -> Bodies {
    let mut found: BTreeMap<&str, &ExecutedFunction> = BTreeMap::new();
    for function in &code.functions {
        if roles::of_frame(&function.name).is_some_and(|role| BODIES.contains(&role.id)) {
            let slot = found.entry(roles::canonical(&function.name)).or_insert(function);
            if function.total() > slot.total() {
                *slot = function;
            }
        }
    }
    let first_calls = document.processes.first().calls.max(1);
    let body = |function: &ExecutedFunction| CallerBody {
        name: function.name.clone(),
        calls: calls(function, code, first_calls),
    };
    found.into_iter().map(|(name, function)| (name.to_owned(), body(function))).collect()
}

/// The lists of all such functions that both runs executed and that differ.
pub fn lists(before: &Bodies, after: &Bodies) -> Vec<CallList> {
    let both = before.iter().filter_map(|(name, body)| Some((body, after.get(name)?)));
    let list = |(old, new): (&CallerBody, &CallerBody)| {
        let rows = align(&old.calls, &new.calls);
        let same = rows.iter().all(|row| row.before.is_some() && row.before == row.after);
        (!same && rows.len() > 1).then(|| CallList { before: old.name.clone(), after: new.name.clone(), rows })
    };
    both.filter_map(list).collect()
}

/// Its direct calls in the order of the code. Adjacent calls of one target are summed.
fn calls(function: &ExecutedFunction, code: &ExecutedCode, first_calls: u64) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for instruction in &function.instructions {
        let count = code.of_target(&instruction.counts);
        let called = decoded(code.processor, &instruction.bytes(), function.address + instruction.offset);
        if count == 0 || called.flow != Flow::Call {
            continue;
        }
        let target = called.target;
        let Some(callee) = code.functions.iter().find(|callee| callee.address == target) else { continue };
        let count = as_f64(count) / as_f64(first_calls);
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
