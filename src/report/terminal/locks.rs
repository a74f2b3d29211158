//! What each process executes while it holds the pipe's locks; exact counts only.

use super::Style;
use super::text::paragraph;
use crate::report::number;
use crate::result::{Document, LockKind, LockUse};
use crate::roles::{self, SCHEDULING};
use crate::util::styled_text::StyledText;
use crate::util::text::grouped;
use std::fmt::Write as _;

/// Roles named per process.
const NAMED: usize = 4;

/// `Under the pipe's mutex`, with a line for each process.
pub(crate) fn locks(document: &Document, style: Style, out: &mut StyledText) {
    let of = |kind: LockKind| document.locks.iter().filter(move |one| one.lock == kind && one.taken > 0);
    if of(LockKind::Mutex).next().is_some() {
        let _ = writeln!(out, "\nUnder the pipe's mutex, per call of the process and without scheduling:");
    }
    for mutex in of(LockKind::Mutex) {
        out.push_str(&paragraph(&format!("  {}: ", mutex.process), &held(document, mutex), style));
    }
    let spin: Vec<String> = of(LockKind::Spinlock)
        .map(|one| format!("{} {} times per call", one.process, whole(per_call(document, one, one.taken))))
        .collect();
    if !spin.is_empty() {
        out.push_str(&paragraph("  spin locks of the pipe's functions: ", &spin.join(", "), style));
    }
}

fn per_call(document: &Document, one: &LockUse, count: u64) -> f64 {
    count as f64 / document.processes.of(one.process).calls.max(1) as f64
}

/// `48`, or `4.25`: some calls of a window are cut off by its ends.
fn whole(count: f64) -> String {
    number::count(if (count - count.round()).abs() < 0.05 { count.round() } else { count })
}

/// `66,521 instructions, 84 % of all; page allocation 48 of 56 calls, copy in 64 of 64`.
fn held(document: &Document, mutex: &LockUse) -> String {
    if mutex.unknown > 0 {
        return format!("unknown: {} instructions could not be followed", grouped(mutex.unknown));
    }
    let shares = document.attribution.of(mutex.process).iter().filter(|share| !SCHEDULING.contains(&share.role));
    let all: u64 = shares.map(|share| share.weight).sum();
    let part = 100.0 * mutex.without_scheduling as f64 / all.max(1) as f64;
    let executed = per_call(document, mutex, mutex.without_scheduling).round();
    let mut text = format!("{} instructions, {part:.0} % of all", whole(executed));
    let mut calls: Vec<_> = mutex.roles().into_iter().filter_map(|role| mutex.of_role(role)).collect();
    calls.retain(|calls| calls.held > 0);
    calls.sort_by_key(|calls| (u64::MAX - calls.held, calls.role));
    let count = |count: u64| whole(per_call(document, mutex, count));
    let named = calls
        .iter()
        .take(NAMED)
        .map(|calls| format!("{} {} of {}", roles::by_id(calls.role).title, count(calls.held), count(calls.all)));
    let named: Vec<String> = named.collect();
    if !named.is_empty() {
        let _ = write!(text, "; calls under it: {}", named.join(", "));
    }
    text
}
