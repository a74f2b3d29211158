//! Plain-text tables and paragraphs for terminals and mails: fixed width, no colour, no markup.

use crate::compare::text;
use crate::util::text::{clean, joined, unjoined};
use std::fmt::Write as _;

/// A table with text in the first column; the others are right-aligned.
#[derive(Debug, Clone, Default)]
pub(crate) struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    #[must_use]
    pub(crate) fn new(header: Vec<String>) -> Self {
        Self { rows: vec![header] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Whether the table has only its header.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// The table in at most `width` columns, indented by `indent` spaces. Text too long for the first column is cut,
    /// which two dots show.
    #[must_use]
    pub(crate) fn render(&self, width: usize, indent: usize) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let others: usize = widths.iter().skip(1).map(|width| width + 2).sum();
        let first = widths.first().copied().unwrap_or(0).min(width.saturating_sub(indent + others).max(8));
        let mut out = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            let mut line = " ".repeat(indent);
            for (column, cell) in row.iter().enumerate() {
                let cell = clean(cell);
                let _ = if column == 0 {
                    write!(line, "{:<first$}", text::cut(&cell, first))
                } else {
                    write!(line, "  {cell:>width$}", width = widths[column])
                };
            }
            out.push_str(line.trim_end());
            out.push('\n');
            if index == 0 {
                let rule: usize = first + others;
                let _ = writeln!(out, "{}{}", " ".repeat(indent), "-".repeat(rule));
            }
        }
        out
    }
}

/// `paragraph` in lines of at most `width` columns. The first line starts with `indent` spaces and `lead`; the others
/// are aligned with its text.
#[must_use]
pub(crate) fn wrap(paragraph: &str, width: usize, indent: usize, lead: &str) -> String {
    let hang = indent + lead.chars().count();
    let room = width.saturating_sub(hang).max(16);
    let mut lines: Vec<String> = vec![String::new()];
    let mut used = 0;
    // Only ASCII blanks separate words: a number stays with its unit.
    for word in joined(&clean(paragraph)).split_ascii_whitespace() {
        let mut word = word;
        let mut length = word.chars().count();
        if used > 0 && used + 1 + length > room {
            lines.push(String::new());
            used = 0;
        }
        // A word longer than a line, such as a path, is broken.
        while length > room {
            let cut = word.char_indices().nth(room).map_or(word.len(), |(at, _)| at);
            if let Some(line) = lines.last_mut() {
                line.push_str(&word[..cut]);
            }
            lines.push(String::new());
            word = &word[cut..];
            length = word.chars().count();
            used = 0;
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
            used += length;
        }
    }
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        let lead = if index == 0 { format!("{}{lead}", " ".repeat(indent)) } else { " ".repeat(hang) };
        let _ = writeln!(out, "{}", unjoined(format!("{lead}{line}").trim_end()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_keep_to_their_width() {
        let mut table = TextTable::new(vec!["function".into(), "before".into(), "after".into()]);
        table.row(vec!["a_function_with_quite_a_long_name_that_goes_on_and_on".into(), "1.00".into(), "2.00".into()]);
        let text = table.render(40, 2);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.contains(".."), "{text}");
    }

    proptest::proptest! {
        #[test]
        fn no_line_is_longer_than_asked(text in "[ -~]{0,400}") {
            for line in wrap(&text, 78, 2, "- ").lines() {
                proptest::prop_assert!(line.chars().count() <= 78);
            }
        }
    }
}
