//! Text for a terminal: wrapped, without control characters.

use super::Style;
use crate::util::text::{clean, joined, unjoined};

/// Width of prose if the output is not a terminal.
const PLAIN_WIDTH: u16 = 100;

/// Maximum width of prose, even on wider terminals.
const WIDEST_PROSE: u16 = 120;

/// `text` cut to `most` characters, cleaned.
pub fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return clean(text);
    }
    clean(&text.chars().take(most - 1).collect::<String>()) + "…"
}

/// `text` as a paragraph, cleaned and wrapped at spaces, so that names and paths stay whole. The first line starts
/// with `first`. The others are indented by two more blanks, or not at all if `first` is empty.
pub fn paragraph(first: &str, text: &str, style: Style) -> String {
    let indent = first.len() - first.trim_start().len();
    wrapped(first, if first.is_empty() { 0 } else { indent + 2 }, text, style)
}

/// [`paragraph`] whose other lines start below the end of `first`, as in a table's last column.
pub fn hanging(first: &str, text: &str, style: Style) -> String {
    wrapped(first, first.chars().count(), text, style)
}

fn wrapped(first: &str, indent: usize, text: &str, style: Style) -> String {
    let width = usize::from(style.width.unwrap_or(PLAIN_WIDTH).clamp(20, WIDEST_PROSE));
    filled(&clean(text), first, indent, width)
}

/// `text` in lines of `width` columns, wrapped at spaces, except that numbers stay with their units. The first line
/// starts with `first`, the others with `indent` blanks.
pub fn filled(text: &str, first: &str, indent: usize, width: usize) -> String {
    let rest = " ".repeat(indent);
    let options = textwrap::Options::new(width)
        .initial_indent(first)
        .subsequent_indent(&rest)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    unjoined(&textwrap::fill(&joined(text), options)) + "\n"
}

/// `text` in lines of `width` columns; none if it is empty.
pub fn lines(text: &str, width: usize) -> Vec<String> {
    filled(text, "", 0, width).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_text_has_no_lines() {
        assert_eq!((lines("aa bb cc", 5), lines("", 5)), (vec!["aa bb".to_owned(), "cc".to_owned()], Vec::new()));
    }

    #[test]
    fn names_are_never_broken() {
        let style = Style { width: Some(30), colour: false };
        let text =
            paragraph("  ", "see page_cache_pipe_buf_release_and_something_longer and splice-to-pipe here", style);
        assert_eq!(text, "  see\n    page_cache_pipe_buf_release_and_something_longer\n    and splice-to-pipe here\n");
        let narrow = Style { width: Some(24), colour: false };
        assert_eq!(paragraph("", "it moved 12 GiB/s, or 3.6 % more", narrow), "it moved 12 GiB/s, or\n3.6 % more\n");
        assert_eq!(paragraph("warning: ", "a\u{1b}[2Jb", style), "warning: a?[2Jb\n");
    }
}
