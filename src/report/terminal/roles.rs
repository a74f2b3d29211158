//! The table of roles of one process, fitted to the terminal's width.

use super::text::{clean, shortened};
use super::{Style, align_right, decimals, empty_table, text_of};
use crate::document::Document;
use crate::profile::RoleShare;
use crate::roles::{self, Role};
use comfy_table::{Attribute, Cell, Color};

/// Roles with a smaller share are summed in one row.
const SMALL: f64 = 0.005;

/// Longer names, such as those of generic Rust functions, are cut in tables.
const LONGEST_FUNCTION: usize = 40;

/// Where the terminal is narrow, columns of figures are left out before functions get less room than this.
const SHORTEST_FUNCTION: usize = 12;

/// A column of figures: heading, a role's value, and the sum of several roles where that means something.
struct FigureColumn {
    heading: &'static str,
    value: fn(&RoleShare) -> Option<String>,
    sum: Option<fn(&RoleShare) -> Option<f64>>,
    /// Narrow terminals lose the columns with the highest number first.
    dispensable: u8,
}

const COLUMNS: [FigureColumn; 7] = [
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
        heading: "instr/KiB",
        value: |share| share.instructions_per_kib.map(decimals),
        sum: Some(|share| share.instructions_per_kib),
        dispensable: 0,
    },
    FigureColumn {
        heading: "instr/call",
        value: |share| share.instructions_per_call.map(decimals),
        sum: Some(|share| share.instructions_per_call),
        dispensable: 3,
    },
    FigureColumn { heading: "calls/MiB", value: |share| share.calls_per_mib.map(decimals), sum: None, dispensable: 4 },
];

/// The part of the whole that went to this role as the caller that had interrupts off, where it is not 0.0 %.
pub fn interrupts_off(share: &RoleShare) -> Option<f64> {
    Some(share.interrupts_off_share()).filter(|part| *part >= 0.0005)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A role, or several small ones, as text.
struct ShareRow<'a> {
    role: Option<&'a Role>,
    title: String,
    figures: Vec<String>,
    function: String,
}

/// The table of `shares`.
pub fn table(document: &Document, shares: &[RoleShare], style: Style) -> String {
    let columns: Vec<&FigureColumn> =
        COLUMNS.iter().filter(|column| shares.iter().any(|share| (column.value)(share).is_some())).collect();
    let rows = rows(document, shares, &columns);
    let (kept, room) = fit(&columns, &rows, style.width);

    let mut table = empty_table(Style { width: None, ..style });
    let swatches = usize::from(style.colour);
    let headings = std::iter::repeat_n("", swatches)
        .chain(["role"])
        .chain(kept.iter().map(|index| columns[*index].heading))
        .chain(["function"]);
    table.set_header(
        headings
            .map(|name| if style.colour { Cell::new(name).add_attribute(Attribute::Bold) } else { Cell::new(name) }),
    );
    for row in &rows {
        let mut cells = vec![swatch(row.role); swatches];
        cells.push(Cell::new(&row.title));
        cells.extend(kept.iter().map(|index| Cell::new(&row.figures[*index])));
        cells.push(Cell::new(shortened(&row.function, room)));
        table.add_row(cells);
    }
    align_right(&mut table, 1 + swatches);
    if let Some(column) = table.column_mut(1 + swatches + kept.len()) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    text_of(&table)
}

fn rows<'a>(document: &Document, shares: &[RoleShare], columns: &[&FigureColumn]) -> Vec<ShareRow<'a>> {
    let (large, small): (Vec<&RoleShare>, Vec<&RoleShare>) = shares.iter().partition(|share| share.share >= SMALL);
    // A single small one says more by its name.
    let (large, small) = if small.len() < 2 { (shares.iter().collect(), Vec::new()) } else { (large, small) };
    let mut rows: Vec<ShareRow<'_>> = large
        .into_iter()
        .map(|share| ShareRow {
            role: Some(roles::by_id(share.role)),
            title: roles::by_id(share.role).title.to_owned(),
            figures: columns.iter().map(|column| (column.value)(share).unwrap_or_default()).collect(),
            function: functions(document, share),
        })
        .collect();
    if !small.is_empty() {
        let sum = |column: &&FigureColumn| {
            let values: Vec<f64> = small.iter().filter_map(|share| column.sum.and_then(|value| value(share))).collect();
            let total = values.iter().sum();
            match column.heading {
                _ if values.is_empty() => String::new(),
                "share" | "IRQs off" => percent(total),
                _ => decimals(total),
            }
        };
        rows.push(ShareRow {
            role: None,
            title: format!("{} other roles", small.len()),
            figures: columns.iter().map(sum).collect(),
            function: String::new(),
        });
    }
    rows
}

/// The columns that fit into `width`, and the room that is left for functions.
fn fit(columns: &[&FigureColumn], rows: &[ShareRow<'_>], width: Option<u16>) -> (Vec<usize>, usize) {
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let Some(width) = width else { return (kept, LONGEST_FUNCTION) };
    let widest = |cells: &mut dyn Iterator<Item = usize>| cells.max().unwrap_or(0) + 2;
    let titles = widest(&mut rows.iter().map(|row| row.title.chars().count()));
    loop {
        let figures: usize = kept
            .iter()
            .map(|index| {
                let heading = columns[*index].heading.chars().count();
                widest(&mut rows.iter().map(|row| row.figures[*index].chars().count()).chain([heading]))
            })
            .sum();
        // The swatch, and the blanks around the functions.
        let room = usize::from(width).saturating_sub(titles + figures + 3 + 2);
        let last = kept.iter().copied().max_by_key(|index| columns[*index].dispensable);
        match last.filter(|index| columns[*index].dispensable > 0) {
            Some(index) if room < SHORTEST_FUNCTION => kept.retain(|kept| *kept != index),
            _ => return (kept, room.clamp(SHORTEST_FUNCTION, LONGEST_FUNCTION)),
        }
    }
}

/// A table with names in the first column, figures, and text in the last, which is cut or left out where `style` has too
/// little room.
pub fn fitted(
    first: (&str, &[String]),
    figures: &[(String, Vec<String>)],
    last: (&str, &[String]),
    style: Style,
) -> String {
    let width = |heading: &str, values: &[String]| {
        values.iter().map(|value| value.chars().count()).chain([heading.chars().count()]).max().unwrap_or(0) + 2
    };
    let used = width(first.0, first.1) + figures.iter().map(|(name, values)| width(name, values)).sum::<usize>();
    let room = style.width.map_or(LONGEST_FUNCTION, |columns| usize::from(columns).saturating_sub(used + 2));
    let with_last = room >= SHORTEST_FUNCTION;
    let mut table = empty_table(Style { width: None, ..style });
    let bold = |name: &str| if style.colour { Cell::new(name).add_attribute(Attribute::Bold) } else { Cell::new(name) };
    let headings = [first.0].into_iter().chain(figures.iter().map(|(name, _)| name.as_str()));
    table.set_header(headings.chain(with_last.then_some(last.0)).map(bold));
    for (index, name) in first.1.iter().enumerate() {
        let mut cells = vec![Cell::new(shortened(name, LONGEST_FUNCTION))];
        cells.extend(figures.iter().map(|(_, values)| Cell::new(&values[index])));
        if with_last {
            cells.push(Cell::new(shortened(&last.1[index], room.min(LONGEST_FUNCTION))));
        }
        table.add_row(cells);
    }
    align_right(&mut table, 1);
    if with_last && let Some(column) = table.column_mut(1 + figures.len()) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    text_of(&table)
}

/// The role's colour in the flame graphs.
fn swatch(role: Option<&Role>) -> Cell {
    let channel = |colour: &str, at: usize| colour.get(at..at + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
    let rgb = role.and_then(|role| {
        Some(Color::Rgb { r: channel(role.colour, 1)?, g: channel(role.colour, 3)?, b: channel(role.colour, 5)? })
    });
    match rgb {
        Some(rgb) => Cell::new("■").fg(rgb),
        None => Cell::new(""),
    }
}

/// The function that the role was resolved to, or else the frame that most of its weight came by; and how many more.
fn functions(document: &Document, share: &RoleShare) -> String {
    let resolved = document
        .symbols
        .iter()
        .find(|resolution| resolution.role == share.role)
        .and_then(|resolution| resolution.symbol.as_deref())
        .filter(|symbol| share.symbols.iter().any(|known| known == symbol));
    let Some(symbol) = resolved.or(share.symbols.first().map(String::as_str)) else {
        return String::new();
    };
    let more = share.symbols.len() - 1;
    if more == 0 { clean(symbol) } else { format!("{} +{more}", shortened(symbol, LONGEST_FUNCTION - 4)) }
}
