//! Tables fitted to the terminal's width.

use super::Style;
use super::text::shortened;
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table, presets};

/// Longer names, such as those of generic Rust functions, are cut.
pub(crate) const LONGEST_TEXT: usize = 40;

/// On a narrow terminal, columns of figures are left out before the last column becomes narrower than this.
const SHORTEST_TEXT: usize = 12;

/// Width of a swatch with blanks.
const SWATCH_WIDTH: usize = 3;

/// A column of figures.
pub(crate) struct Figures {
    pub heading: String,
    /// One per row.
    pub cells: Vec<String>,
    /// On a narrow terminal, columns with the highest number are dropped first; columns with 0 stay.
    pub dispensable: u8,
}

/// A table of names, figures, and text in the last column. If `style` is too narrow, dispensable figures are dropped,
/// then the text is cut, then left out. With colour, `swatches` come before the names.
pub(crate) fn fitted(
    swatches: Option<&[Cell]>,
    first: (&str, &[String]),
    figures: &[Figures],
    last: (&str, &[String]),
    style: Style,
) -> String {
    let swatches = swatches.filter(|_| style.colour);
    let mut figures: Vec<&Figures> = figures.iter().collect();
    let used = swatches.map_or(0, |_| SWATCH_WIDTH) + width(first.0, first.1);
    let room = room(used, &mut figures, style.width);
    let with_last = room >= SHORTEST_TEXT;
    let mut table = empty(style);
    let bold = |name: &str| if style.colour { Cell::new(name).add_attribute(Attribute::Bold) } else { Cell::new(name) };
    let headings = swatches.map(|_| "").into_iter().chain([first.0]);
    let headings = headings.chain(figures.iter().map(|column| column.heading.as_str()));
    table.set_header(headings.chain(with_last.then_some(last.0)).map(bold));
    for (index, name) in first.1.iter().enumerate() {
        let mut cells: Vec<Cell> = swatches.map(|swatches| swatches[index].clone()).into_iter().collect();
        cells.push(Cell::new(shortened(name, LONGEST_TEXT)));
        cells.extend(figures.iter().map(|column| Cell::new(&column.cells[index])));
        if with_last {
            cells.push(Cell::new(shortened(&last.1[index], room)));
        }
        table.add_row(cells);
    }
    let before = 1 + usize::from(swatches.is_some());
    for column in table.column_iter_mut().skip(before).take(figures.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    // Without trailing blanks.
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// The width of a column with blanks.
fn width(heading: &str, cells: &[String]) -> usize {
    cells.iter().map(|cell| cell.chars().count()).chain([heading.chars().count()]).max().unwrap_or(0) + 2
}

/// The width left for the last column after dropping figures.
fn room(used: usize, figures: &mut Vec<&Figures>, terminal: Option<u16>) -> usize {
    let Some(terminal) = terminal else { return LONGEST_TEXT };
    loop {
        let all = used + figures.iter().map(|column| width(&column.heading, &column.cells)).sum::<usize>();
        let room = usize::from(terminal).saturating_sub(all + 2);
        let most = figures.iter().map(|column| column.dispensable).max().unwrap_or(0);
        if room >= SHORTEST_TEXT || most == 0 {
            return room.min(LONGEST_TEXT);
        }
        figures.retain(|column| column.dispensable < most);
    }
}

fn empty(style: Style) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if style.colour {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table
}
