//! The table of all outputs: typed cells, which a terminal, a page, Markdown and CSV show in their own ways.

mod layout;

use super::number::{exact, number, percent, signed};
use super::terminal::Style;
use super::terminal::text::{paragraph, shortened};
use crate::roles::Role;
use crate::util::csv_text::csv_text;
use crate::util::styled_text::StyledText;
use crate::util::text::{clean, grouped};
use layout::{LongText, ShownColumn, fit, in_parts, write_line};
use textwrap::core::display_width;

/// Longer texts, such as names of generic Rust functions, are cut on terminals.
const LONGEST_TEXT: usize = 60;

/// Longer headings, such as names that users give to columns, are cut on terminals.
const LONGEST_HEADING: usize = 24;

/// Texts are not cut shorter than this on narrow terminals; columns of figures are left out before.
const SHORTEST_TEXT: usize = 12;

/// The same for the first column, which names the row.
const SHORTEST_NAME: usize = 16;

/// See [`TableOf::less`]: a column that only pages show.
pub const PAGE_ONLY: u8 = u8::MAX;

/// What a cell shows. Columns with figures are aligned to the right.
#[derive(Debug, Clone, PartialEq)]
pub enum TableCell {
    /// A figure that is not available: `-`, and nothing in CSV.
    Missing,
    Text(String),
    /// A name in code.
    Name(String),
    /// Its title, and its colour where there are colours.
    Role {
        title: String,
        colour: String,
    },
    Count(u64),
    /// A measured number, with the digits that it deserves.
    Number(f64),
    /// A counted number, with two decimals.
    Exact(f64),
    /// A difference of counted numbers, with its sign.
    Change(f64),
    /// A part of a whole, 0 to 1: `12 %`.
    Share(f64),
    /// The same with one decimal.
    FineShare(f64),
    /// Other figures: an interval, several of them, a figure with its unit.
    Figure(String),
    /// Text that leads to another place of the page, or another file.
    Link {
        text: String,
        to: String,
    },
    /// A function: its name and a mark, and lines that a page shows below `summary` when the reader opens it.
    Unfold {
        name: String,
        mark: &'static str,
        summary: String,
        lines: Vec<String>,
    },
    /// A verdict, which pages show in the colour of its class.
    Word {
        text: String,
        class: &'static str,
    },
    /// A bar: its part of the longest one, less than 0 for a decrease. Only for pages.
    Bar(f64),
}

impl TableCell {
    /// The role's title.
    pub fn role(role: &Role) -> Self {
        Self::Role { title: role.title.to_owned(), colour: role.colour.to_owned() }
    }

    /// A value as it is displayed.
    pub fn shown(value: impl ToString) -> Self {
        Self::Text(value.to_string())
    }

    /// A verdict whose class has its name.
    pub fn word(word: &'static str) -> Self {
        Self::Word { text: word.to_owned(), class: word }
    }

    /// As a figure.
    pub fn figure(text: impl Into<String>) -> Self {
        Self::Figure(text.into())
    }

    /// The text, without control characters.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Missing => "-".to_owned(),
            Self::Text(text)
            | Self::Name(text)
            | Self::Figure(text)
            | Self::Word { text, .. }
            | Self::Link { text, .. }
            | Self::Unfold { name: text, .. } => clean(text),
            Self::Role { title, .. } => clean(title),
            Self::Count(count) => grouped(*count),
            Self::Number(value) => number(*value),
            Self::Exact(value) => exact(*value),
            Self::Change(change) => signed(*change),
            Self::Share(share) => percent(*share),
            Self::FineShare(share) => format!("{:.1} %", 100.0 * share),
            Self::Bar(_) => String::new(),
        }
    }

    /// All digits of a number.
    fn raw(&self) -> String {
        match self {
            Self::Missing => String::new(),
            Self::Count(count) => count.to_string(),
            Self::Number(value)
            | Self::Exact(value)
            | Self::Change(value)
            | Self::Share(value)
            | Self::FineShare(value) => value.to_string(),
            other => other.text(),
        }
    }

    pub(super) fn is_figure(&self) -> bool {
        !matches!(
            self,
            Self::Text(_)
                | Self::Name(_)
                | Self::Role { .. }
                | Self::Link { .. }
                | Self::Unfold { .. }
                | Self::Word { .. }
                | Self::Bar(_)
        )
    }

    fn says_nothing(&self) -> bool {
        matches!(self, Self::Missing | Self::Count(0)) || matches!(self, Self::Text(text) if text.is_empty())
    }
}

impl From<&str> for TableCell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for TableCell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for TableCell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<u32> for TableCell {
    fn from(count: u32) -> Self {
        Self::Count(count.into())
    }
}

impl From<usize> for TableCell {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<f64> for TableCell {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for TableCell {
    fn from(cell: Option<T>) -> Self {
        cell.map_or(Self::Missing, Into::into)
    }
}

/// A table. The first column names the row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Above it; may be empty.
    pub title: String,
    pub(super) columns: Vec<TableColumn>,
    pub(super) rows: Vec<Vec<TableCell>>,
    /// Whether terminals wrap the texts of the last column, instead of cutting them.
    pub wraps: bool,
    /// The ids of its rows in a page, if it has some.
    pub ids: Vec<String>,
    /// Below it.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct TableColumn {
    /// Terminals show it in several lines if it has several.
    pub heading: String,
    /// On narrow terminals, columns with the highest number are left out first; those with 0 stay.
    pub(crate) dispensable: u8,
}

/// A table of `T`s, to which columns are added.
pub struct TableOf<T> {
    table: Table,
    rows: Vec<T>,
}

impl Table {
    /// Drop the last column if its cells are all empty or 0.
    fn without_empty(&mut self) {
        if self.rows.iter().filter_map(|row| row.last()).all(TableCell::says_nothing) {
            self.columns.pop();
            self.rows.iter_mut().for_each(|row| drop(row.pop()));
        }
    }

    pub fn of<T>(title: impl Into<String>, rows: impl IntoIterator<Item = T>) -> TableOf<T> {
        let rows: Vec<T> = rows.into_iter().collect();
        let table = Self { title: title.into(), rows: rows.iter().map(|_| Vec::new()).collect(), ..Self::default() };
        TableOf { table, rows }
    }

    pub fn new<H: Into<String>>(headings: impl IntoIterator<Item = H>, rows: Vec<Vec<TableCell>>) -> Self {
        let column = |heading: H| TableColumn { heading: heading.into(), dispensable: 0 };
        Self { columns: headings.into_iter().map(column).collect(), rows, ..Self::default() }
    }

    /// The same with a line above it.
    pub fn titled(self, title: impl Into<String>) -> Self {
        Self { title: title.into(), ..self }
    }

    /// The same with a line below it; none if it is empty.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.extend(Some(note.into()).filter(|note| !note.is_empty()));
        self
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether a column is aligned to the right.
    pub(super) fn is_of_figures(&self, column: usize) -> bool {
        self.rows.iter().filter_map(|row| row.get(column)).any(TableCell::is_figure)
    }

    /// All cells with all digits, and names of columns as their headings (RFC 4180).
    pub fn csv(&self) -> String {
        let headings = self.columns.iter().map(|column| column.heading.clone()).collect();
        csv_text(
            std::iter::once(headings)
                .chain(self.rows.iter().map(|row| row.iter().map(TableCell::raw).collect::<Vec<_>>())),
        )
    }

    /// For a terminal: the title, the rows, the notes. If the terminal is too narrow, texts are cut, then dispensable
    /// columns and the last text are left out.
    pub fn text(&self, style: Style) -> StyledText {
        self.written(style, true)
    }

    /// The same without cutting a text: one that is too long has a line of its own, and columns for which there is no room
    /// follow below, each time with the first one.
    pub(super) fn uncut(&self, style: Style) -> StyledText {
        self.written(style, false)
    }

    fn written(&self, style: Style, is_cut: bool) -> StyledText {
        let heads = self.columns.iter().map(|column| column.heading.lines().count()).max().unwrap_or(0).max(1);
        let mut shown: Vec<ShownColumn> = Vec::new();
        for (at, column) in self.columns.iter().enumerate().filter(|(_, column)| column.dispensable != PAGE_ONLY) {
            shown.extend(self.swatches(at, heads).filter(|_| style.colour));
            shown.push(self.shown(at, column, heads, is_cut));
        }
        if let Some(terminal) = style.width {
            fit(&mut shown, usize::from(terminal), is_cut);
        }
        let mut out = StyledText::default();
        if !self.title.is_empty() {
            let title = format!("{}:", self.title);
            out.push_str(&if is_cut { clean(&title) + "\n" } else { paragraph("", &title, style) });
        }
        let parts = match style.width.filter(|_| !is_cut) {
            Some(terminal) => in_parts(shown, usize::from(terminal)),
            None => vec![shown],
        };
        for (number, shown) in parts.iter().enumerate() {
            out.push_str(if number == 0 { "" } else { "\n" });
            for line in 0..heads + self.rows.len() {
                let is_heading = line < heads;
                let last = if is_heading || !self.wraps { LongText::of(is_cut) } else { LongText::Wrapped };
                write_line(shown, line, is_heading && style.colour, LongText::of(is_cut), last, &mut out);
            }
        }
        self.notes.iter().for_each(|note| out.push_str(&paragraph(" ", note, style)));
        out
    }

    fn shown(&self, at: usize, column: &TableColumn, heads: usize, is_cut: bool) -> ShownColumn {
        let above = heads - column.heading.lines().count();
        let heading =
            column.heading.lines().map(|line| shortened(line, if is_cut { LONGEST_HEADING } else { usize::MAX }));
        let heading = std::iter::repeat_n(String::new(), above).chain(heading);
        let rows = self.rows.iter().map(|row| row.get(at).map_or_else(String::new, TableCell::text));
        let cells: Vec<String> = heading.chain(rows).collect();
        let width = cells.iter().map(|cell| display_width(cell)).max().unwrap_or(0);
        let right = self.is_of_figures(at);
        let shortest = if at == 0 { SHORTEST_NAME } else { SHORTEST_TEXT };
        let head = column.heading.lines().map(display_width).max().unwrap_or(0);
        let (width, least) = match right {
            true => (width, width),
            false if is_cut => (width.min(LONGEST_TEXT), width.min(shortest)),
            false => (width, width.min(shortest.max(head))),
        };
        ShownColumn { cells, colours: Vec::new(), right, width, least, dispensable: column.dispensable }
    }

    /// The colours of a column of roles.
    fn swatches(&self, at: usize, heads: usize) -> Option<ShownColumn> {
        let of_row = |row: &Vec<TableCell>| match row.get(at) {
            Some(TableCell::Role { colour, .. }) => colour.clone(),
            _ => String::new(),
        };
        let colours: Vec<String> =
            std::iter::repeat_n(String::new(), heads).chain(self.rows.iter().map(of_row)).collect();
        let cells =
            colours.iter().map(|colour| if colour.is_empty() { String::new() } else { "■".to_owned() }).collect();
        let is_any = colours.iter().any(|colour| !colour.is_empty());
        is_any.then_some(ShownColumn { cells, colours, right: false, width: 1, least: 1, dispensable: 0 })
    }
}

impl<T> TableOf<T> {
    /// A column that stays on narrow terminals.
    pub fn column<C: Into<TableCell>>(self, heading: impl Into<String>, cell: impl Fn(&T) -> C) -> Self {
        self.less(0, heading, cell)
    }

    /// A column that narrow terminals leave out; those with the highest number first.
    pub fn less<C: Into<TableCell>>(
        mut self,
        dispensable: u8,
        heading: impl Into<String>,
        cell: impl Fn(&T) -> C,
    ) -> Self {
        self.add(dispensable, heading.into(), &|row| cell(row).into());
        self
    }

    /// Compiled once for all columns of such rows.
    fn add(&mut self, dispensable: u8, heading: String, cell: &dyn Fn(&T) -> TableCell) {
        self.table.columns.push(TableColumn { heading, dispensable });
        for (cells, row) in self.table.rows.iter_mut().zip(&self.rows) {
            cells.push(cell(row));
        }
    }

    /// As [`Self::less`], unless all of its cells are empty or 0.
    pub fn if_any<C: Into<TableCell>>(
        mut self,
        dispensable: u8,
        heading: impl Into<String>,
        cell: impl Fn(&T) -> C,
    ) -> Self {
        self.add(dispensable, heading.into(), &|row| cell(row).into());
        self.table.without_empty();
        self
    }

    /// What `columns` adds, if `wanted`.
    pub fn when(self, wanted: bool, columns: impl FnOnce(Self) -> Self) -> Self {
        if wanted { columns(self) } else { self }
    }

    /// The finished table.
    pub fn done(self) -> Table {
        self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let rows = [("a_function_with_quite_a_long_name_that_goes_on", 1.0, "copy in"), ("main", 12_345.6, "user")];
        Table::of("Functions", rows)
            .column("function", |row| TableCell::Name(row.0.to_owned()))
            .column("calls per KiB", |row| TableCell::Exact(row.1))
            .less(1, "share", |_| TableCell::FineShare(0.5))
            .if_any(0, "nothing", |_| 0_u64)
            .column("role", |row| row.2)
            .done()
    }

    const fn of_width(width: u16) -> Style {
        Style { width: Some(width), colour: false }
    }

    #[test]
    fn figures_are_aligned_and_columns_of_zeros_left_out() {
        assert_eq!(
            &*table().note("as counted").text(Style::PLAIN),
            "Functions:\n function                                        calls per KiB   share  role\n \
             a_function_with_quite_a_long_name_that_goes_on           1.00  50.0 %  copy in\n main                 \
             \x20                                 12,346  50.0 %  user\n as counted\n"
        );
    }

    #[test]
    fn tables_keep_to_their_width() {
        for width in [40, 50, 60, 70] {
            let text = table().text(of_width(width));
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            assert_eq!((text.contains('…'), text.contains("share")), (true, width > 45), "{text}");
        }
        assert!(!table().text(of_width(36)).contains("user"), "{}", table().text(of_width(36)));
    }

    #[test]
    fn texts_that_are_wrapped_lose_nothing() {
        let rows = vec![vec!["a".into(), "one two three four".into()], vec!["b".into(), "five".into()]];
        let table = Table { wraps: true, ..Table::new(["x", "words"], rows) };
        assert_eq!(&*table.text(of_width(18)), " x  words\n a  one two three\n    four\n b  five\n");
    }

    #[test]
    fn long_texts_that_are_not_cut_have_lines_of_their_own() {
        let text = table().uncut(of_width(40));
        let long = " a_function_with_quite_a_long_name_that_goes_on\n                            1.00  copy in\n";
        assert!(text.contains(long) && !text.contains('…') && !text.contains("share"), "{text}");
        assert_eq!(table().uncut(of_width(100)), table().text(of_width(100)));
    }

    #[test]
    fn columns_without_room_follow_below() {
        let figures = ["11111.00", "22222.00", "33333.00"].map(|text| TableCell::Figure(text.into()));
        let row = |name: &str| std::iter::once(name.into()).chain(figures.iter().cloned()).collect::<Vec<_>>();
        let table = Table::new(["per KiB", "6.1", "6.12", "7.2"], vec![row("page free"), row("copy in")]).note("end");
        assert_eq!(
            &*table.uncut(of_width(30)),
            " per KiB         6.1      6.12\n page free  11111.00  22222.00\n copy in    11111.00  22222.00\n\n \
             per KiB         7.2\n page free  33333.00\n copy in    33333.00\n end\n"
        );
        assert_eq!(table.uncut(of_width(40)), table.text(of_width(40)));
    }

    #[test]
    fn long_titles_have_several_lines() {
        let table = Table::new(["a"], vec![vec!["b".into()]]).titled("Calls of one function, in the order of the code");
        assert_eq!(&*table.uncut(of_width(30)), "Calls of one function, in the\norder of the code:\n a\n b\n");
    }

    #[test]
    fn csv_has_all_digits() {
        let csv = table().csv();
        assert_eq!(csv.lines().last(), Some("main,12345.6,0.5,user"), "{csv}");
        let missing = Table::new(["a", "b"], vec![vec![TableCell::Missing, TableCell::from(None::<u64>)]]);
        assert_eq!((&*missing.csv(), &*missing.text(Style::PLAIN)), ("a,b\n,\n", " a  b\n -  -\n"));
    }

    #[test]
    fn roles_have_their_colours() {
        let role = TableCell::Role { title: "copy in".to_owned(), colour: "#0102ff".to_owned() };
        let text = Table::new(["role"], vec![vec![role]]).text(Style { width: None, colour: true });
        assert_eq!(&*text, "    \u{1b}[1mrole\u{1b}[0m\n \u{1b}[38;2;1;2;255m■\u{1b}[0m  copy in\n");
    }

    #[test]
    fn headings_of_several_lines_end_at_the_rows() {
        let table = Table::new(["mode", "writer\nns/KiB"], vec![vec!["write".into(), 12.0.into()]]);
        assert_eq!(&*table.text(Style::PLAIN), "        writer\n mode   ns/KiB\n write    12.0\n");
    }
}
