//! The table of roles of one process.

use crate::kernel::resolve::Resolution;
use crate::profile::RoleShare;
use crate::report::number::{exact, number};
use crate::report::table::{Table, TableCell};
use crate::roles;
use crate::util::text::rounded;

/// Roles with a smaller share are summed in one row.
const SMALL: f64 = 0.005;

/// A row: a role, or several small ones.
struct ShareRow {
    title: TableCell,
    share: RoleShare,
    function: String,
}

/// The part of the total attributed to this role as the caller that had interrupts off; `None` if it rounds to 0.0 %.
pub fn interrupts_off(share: &RoleShare) -> Option<f64> {
    Some(share.interrupts_off_share()).filter(|part| *part >= 0.0005)
}

pub fn table(title: impl Into<String>, symbols: &[Resolution], shares: &[RoleShare]) -> Table {
    let (mut large, small): (Vec<&RoleShare>, Vec<&RoleShare>) = shares.iter().partition(|share| share.share >= SMALL);
    // A single small role is named.
    let rest = if small.len() < 2 { None } else { sum(&small) };
    if rest.is_none() {
        large = shares.iter().collect();
    }
    let named = large.into_iter().map(|share| ShareRow {
        title: TableCell::role(roles::by_id(share.role)),
        share: share.clone(),
        function: functions(symbols, share),
    });
    let rest = rest.map(|share| {
        let title = TableCell::Text(format!("{} other roles", small.len()));
        ShareRow { title, share, function: String::new() }
    });
    // What a row does not have is left blank.
    let figure = |text: Option<String>| text.map_or_else(|| TableCell::from(""), TableCell::Figure);
    let percents = |ends: [f64; 2], digits| ends.map(|end| format!("{:.digits$}", 100.0 * end)).join(" to ");
    Table::of(title, named.chain(rest))
        .column("role", |row| row.title.clone())
        .column("share", |row| TableCell::FineShare(row.share.share))
        .if_any(0, "IRQs off", |row| interrupts_off(&row.share).map_or_else(|| "".into(), TableCell::FineShare))
        .if_any(1, "95 % CI", |row| figure(row.share.share_ci95.map(|ends| percents(ends, 1))))
        .if_any(2, "ns/KiB", |row| figure(row.share.ns_per_kib.map(number)))
        .if_any(2, "est. cycles", |row| {
            figure(row.share.cycles.as_ref().map(|cycles| {
                let range = cycles.share_range.map(|end| format!("{:.0}", 100.0 * end));
                format!("{} %", if range[0] == range[1] { range[0].clone() } else { range.join(" to ") })
            }))
        })
        .if_any(0, "instr/KiB", |row| figure(row.share.instructions_per_kib.map(exact)))
        .if_any(3, "instr/syscall", |row| figure(row.share.instructions_per_call.map(per_call)))
        .if_any(4, "fn calls/MiB", |row| figure(row.share.calls_per_mib.map(exact)))
        .column("function", |row| TableCell::Name(row.function.clone()))
        .done()
}

/// Instructions per system call: thousands have no decimals.
fn per_call(instructions: f64) -> String {
    if instructions >= 1000.0 { rounded(instructions) } else { exact(instructions) }
}

/// All `small` roles as one, without what has no sum.
fn sum(small: &[&RoleShare]) -> Option<RoleShare> {
    let total = |value: fn(&RoleShare) -> Option<f64>| {
        let known: Vec<f64> = small.iter().filter_map(|share| value(share)).collect();
        (!known.is_empty()).then(|| known.iter().sum())
    };
    Some(RoleShare {
        share: total(|share| Some(share.share))?,
        share_ci95: None,
        weight: small.iter().map(|share| share.weight).sum(),
        interrupts_off: small.iter().map(|share| share.interrupts_off).sum(),
        ns_per_kib: total(|share| share.ns_per_kib),
        instructions_per_kib: total(|share| share.instructions_per_kib),
        instructions_per_call: total(|share| share.instructions_per_call),
        calls_per_mib: None,
        cycles: None,
        symbols: Vec::new(),
        ..(*small.first()?).clone()
    })
}

/// The function to which the role was resolved, or else the frame with most of its weight, and the number of others.
fn functions(symbols: &[Resolution], share: &RoleShare) -> String {
    let resolved = symbols
        .iter()
        .find(|resolution| resolution.role == share.role)
        .and_then(|resolution| resolution.symbol.as_deref())
        .filter(|symbol| share.symbols.iter().any(|known| known == symbol));
    let Some(symbol) = resolved.or(share.symbols.first().map(String::as_str)) else {
        return String::new();
    };
    let more = share.symbols.len() - 1;
    if more == 0 { symbol.to_owned() } else { format!("{symbol} +{more}") }
}
