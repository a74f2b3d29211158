//! The table of roles of one process, fitted to the terminal's width.

use super::table::{Figures, LONGEST_TEXT, fitted};
use super::text::shortened;
use super::{Style, decimals};
use crate::kernel::resolve::Resolution;
use crate::profile::RoleShare;
use crate::roles::{self, Role};
use crate::util::colour::rgb;
use crate::util::text::clean;
use comfy_table::{Cell, Color};

/// Roles with a smaller share are summed in one row.
const SMALL: f64 = 0.005;

/// A column of figures: heading, a role's value, and the sum of several roles if it has a meaning.
struct FigureColumn {
    heading: &'static str,
    value: fn(&RoleShare) -> Option<String>,
    sum: Option<fn(&RoleShare) -> Option<f64>>,
    /// See [`Figures::dispensable`].
    dispensable: u8,
}

const COLUMNS: [FigureColumn; 8] = [
    FigureColumn {
        heading: "share",
        value: |share| Some(percent(share.share)),
        sum: Some(|share| Some(share.share)),
        dispensable: 0,
    },
    FigureColumn {
        heading: "IRQs off",
        value: |share| interrupts_off(share).map(percent),
        sum: Some(interrupts_off),
        dispensable: 0,
    },
    FigureColumn {
        heading: "95 % CI",
        value: |share| share.share_ci95.map(|[low, high]| format!("{:.1} to {:.1}", 100.0 * low, 100.0 * high)),
        sum: None,
        dispensable: 1,
    },
    FigureColumn {
        heading: "ns/KiB",
        value: |share| share.ns_per_kib.map(decimals),
        sum: Some(|share| share.ns_per_kib),
        dispensable: 2,
    },
    FigureColumn {
        heading: "est. cycles",
        value: |share| share.cycles.as_ref().map(|cycles| range(cycles.share_range)),
        sum: None,
        dispensable: 2,
    },
    FigureColumn {
        heading: "instr/KiB",
        value: |share| share.instructions_per_kib.map(decimals),
        sum: Some(|share| share.instructions_per_kib),
        dispensable: 0,
    },
    FigureColumn {
        heading: "instr/syscall",
        value: |share| share.instructions_per_call.map(decimals),
        sum: Some(|share| share.instructions_per_call),
        dispensable: 3,
    },
    FigureColumn {
        heading: "fn calls/MiB",
        value: |share| share.calls_per_mib.map(decimals),
        sum: None,
        dispensable: 4,
    },
];

/// The part of the total attributed to this role as the caller that had interrupts off; `None` if it rounds to 0.0 %.
pub(crate) fn interrupts_off(share: &RoleShare) -> Option<f64> {
    Some(share.interrupts_off_share()).filter(|part| *part >= 0.0005)
}

/// `26 to 38 %`.
fn range([low, high]: [f64; 2]) -> String {
    let [low, high] = [low, high].map(|share| format!("{:.0}", 100.0 * share));
    if low == high { format!("{low} %") } else { format!("{low} to {high} %") }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// The table of `shares`.
pub(crate) fn table(symbols: &[Resolution], shares: &[RoleShare], style: Style) -> String {
    let (large, small): (Vec<&RoleShare>, Vec<&RoleShare>) = shares.iter().partition(|share| share.share >= SMALL);
    // A single small role is named.
    let (large, small) = if small.len() < 2 { (shares.iter().collect(), Vec::new()) } else { (large, small) };
    let columns = COLUMNS.iter().filter(|column| shares.iter().any(|share| (column.value)(share).is_some()));
    let figures: Vec<Figures> = columns
        .map(|column| {
            let values = large.iter().map(|share| (column.value)(share).unwrap_or_default());
            let rest = (!small.is_empty()).then(|| sum(column, &small));
            let (heading, cells) = (column.heading.to_owned(), values.chain(rest).collect());
            Figures { heading, cells, dispensable: column.dispensable }
        })
        .collect();
    let others = (!small.is_empty()).then(|| format!("{} other roles", small.len()));
    let role = |share: &&RoleShare| roles::by_id(share.role);
    let titles: Vec<String> = large.iter().map(|share| role(share).title.to_owned()).chain(others).collect();
    let mut functions: Vec<String> = large.iter().map(|share| functions(symbols, share)).collect();
    functions.resize(titles.len(), String::new());
    let mut swatches: Vec<Cell> = large.iter().map(|share| swatch(role(share))).collect();
    swatches.resize(titles.len(), Cell::new(""));
    fitted(Some(&swatches), ("role", &titles), &figures, ("function", &functions), style)
}

/// What a column says of all `small` roles together.
fn sum(column: &FigureColumn, small: &[&RoleShare]) -> String {
    let values: Vec<f64> = small.iter().filter_map(|share| column.sum.and_then(|value| value(share))).collect();
    let total = values.iter().sum();
    match column.heading {
        _ if values.is_empty() => String::new(),
        "share" | "IRQs off" => percent(total),
        _ => decimals(total),
    }
}

/// The role's colour in the flame graphs.
fn swatch(role: &Role) -> Cell {
    let [r, g, b] = rgb(role.colour);
    Cell::new("■").fg(Color::Rgb { r, g, b })
}

/// The function to which the role was resolved, or else the frame with most of its weight, and the number of others.
pub(crate) fn functions(symbols: &[Resolution], share: &RoleShare) -> String {
    let resolved = symbols
        .iter()
        .find(|resolution| resolution.role == share.role)
        .and_then(|resolution| resolution.symbol.as_deref())
        .filter(|symbol| share.symbols.iter().any(|known| known == symbol));
    let Some(symbol) = resolved.or(share.symbols.first().map(String::as_str)) else {
        return String::new();
    };
    let more = share.symbols.len() - 1;
    if more == 0 { clean(symbol) } else { format!("{} +{more}", shortened(symbol, LONGEST_TEXT - 4)) }
}
