//! The columns of a table as text: their widths, and what is done with what is longer.

use crate::report::terminal::text::{lines, shortened};
use crate::util::colour::rgb;
use crate::util::styled_text::StyledText;
use textwrap::core::display_width;

/// A column on a terminal: the lines of its heading, then its cells.
#[derive(Clone)]
pub(super) struct ShownColumn {
    pub cells: Vec<String>,
    /// `#rrggbb` or nothing, if it has colours.
    pub colours: Vec<String>,
    pub right: bool,
    pub width: usize,
    /// It may be as narrow as this.
    pub least: usize,
    pub(crate) dispensable: u8,
}

/// What is done with texts that are longer than their column is wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LongText {
    Cut,
    /// In several lines.
    Wrapped,
    /// As a whole: in the last column, or in a line of its own above the rest of its row.
    Whole,
}

impl LongText {
    pub(super) fn of(is_cut: bool) -> Self {
        if is_cut { Self::Cut } else { Self::Whole }
    }
}

impl ShownColumn {
    fn text(&self, line: usize) -> &str {
        self.cells.get(line).map_or("", String::as_str)
    }

    fn cell(&self, line: usize, text: &str, bold: bool) -> StyledText {
        let blanks = " ".repeat(self.width.saturating_sub(display_width(text)));
        let mut out = StyledText::from(if self.right { &*blanks } else { "" });
        match self.colours.get(line).filter(|colour| !colour.is_empty()).map(|colour| rgb(colour)) {
            _ if bold && !text.is_empty() => out.push_bold(text),
            Some(colour) => out.push_coloured(colour, text),
            None => out.push_str(text),
        }
        out.push_str(if self.right { "" } else { &blanks });
        out
    }
}

/// Write a line of the headings or a row. `long`: what is done with long texts; `last`: with those of the last column.
pub(super) fn write_line(
    shown: &[ShownColumn],
    line: usize,
    bold: bool,
    long: LongText,
    last: LongText,
    out: &mut StyledText,
) {
    let mut row = StyledText::default();
    let (mut begin, mut further) = (0, Vec::new());
    for (at, column) in shown.iter().enumerate() {
        let (text, is_last) = (column.text(line), at + 1 == shown.len());
        let mut pieces = match if is_last { last } else { long } {
            LongText::Wrapped if !column.right => lines(text, column.width).into_iter(),
            LongText::Cut => vec![shortened(text, column.width)].into_iter(),
            LongText::Whole if !is_last && display_width(text) > column.width => {
                out.push_str(&format!(" {}{text}\n", " ".repeat(begin)));
                Vec::new().into_iter()
            }
            _ => vec![text.to_owned()].into_iter(),
        };
        row.push_str(if at == 0 { " " } else { "  " });
        row.append(&column.cell(line, &pieces.next().unwrap_or_default(), bold));
        further.extend(pieces.map(|piece| format!(" {}{piece}\n", " ".repeat(begin))));
        begin += column.width + 2;
    }
    row.trim_end();
    out.append(&row);
    out.push_str("\n");
    further.iter().for_each(|piece| out.push_str(piece));
}

/// The columns in tables below each other, each with the first one, so that figures fit the terminal.
pub(super) fn in_parts(shown: Vec<ShownColumn>, terminal: usize) -> Vec<Vec<ShownColumn>> {
    let mut columns = shown.into_iter();
    let Some(first) = columns.next() else { return Vec::new() };
    let mut parts = vec![vec![first.clone()]];
    for column in columns {
        let width = |part: &Vec<ShownColumn>| part.iter().map(|column| column.width + 2).sum::<usize>();
        match parts.last_mut() {
            // A blank before the first, and two between each. Texts may be longer than their column.
            Some(part) if part.len() == 1 || !column.right || width(part) + column.width < terminal => {
                part.push(column)
            }
            _ => parts.push(vec![first.clone(), column]),
        }
    }
    parts
}

/// Make columns narrower and leave out others, until the table is at most as wide as the terminal if it can be. Texts are
/// left out only where they may be cut.
pub(super) fn fit(shown: &mut Vec<ShownColumn>, terminal: usize, is_cut: bool) {
    loop {
        // A blank before the first, and two between each.
        let all = shown.iter().map(|column| column.width + 2).sum::<usize>().saturating_sub(1);
        let mut excess = all.saturating_sub(terminal);
        let spare: usize = shown.iter().map(|column| column.width - column.least).sum();
        let most = shown.iter().map(|column| column.dispensable).max().unwrap_or(0);
        let stays = !is_cut || shown.len() < 2 || shown.last().is_some_and(|last| last.right);
        if excess <= spare || (most == 0 && stays) {
            // The widest text first.
            while let Some(widest) = shown.iter_mut().filter(|one| one.width > one.least).max_by_key(|one| one.width)
                && excess > 0
            {
                widest.width -= 1;
                excess -= 1;
            }
            return;
        }
        if most > 0 {
            shown.retain(|column| column.dispensable < most);
        } else {
            shown.pop();
        }
    }
}
