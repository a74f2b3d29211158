//! Text for a terminal with styles: what is put into it is cleaned first, so that all styles in it are this program's.

use super::text::clean_lines;
use std::fmt;
use std::ops::Deref;

/// Text in lines, with styles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StyledText(String);

impl StyledText {
    /// Add plain text.
    pub fn push_str(&mut self, text: &str) {
        self.0.push_str(&clean_lines(text));
    }

    pub fn append(&mut self, other: &Self) {
        self.0.push_str(&other.0);
    }

    /// Add bold text.
    pub fn push_bold(&mut self, text: &str) {
        self.styled("1", text);
    }

    /// Add text in a colour: red, green, blue.
    pub fn push_coloured(&mut self, [red, green, blue]: [u8; 3], text: &str) {
        self.styled(&format!("38;2;{red};{green};{blue}"), text);
    }

    /// ECMA-48, SGR.
    fn styled(&mut self, style: &str, text: &str) {
        self.0.push_str(&format!("\u{1b}[{style}m{}\u{1b}[0m", clean_lines(text)));
    }

    /// Remove blanks at the end.
    pub fn trim_end(&mut self) {
        self.0.truncate(self.0.trim_end_matches(' ').len());
    }
}

impl Deref for StyledText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for StyledText {
    fn from(text: &str) -> Self {
        Self(clean_lines(text))
    }
}

impl From<String> for StyledText {
    fn from(text: String) -> Self {
        Self::from(&*text)
    }
}

impl From<StyledText> for String {
    fn from(text: StyledText) -> Self {
        text.0
    }
}

impl fmt::Display for StyledText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Write for StyledText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_str(text);
        Ok(())
    }
}

/// What others wrote for a terminal, without the escape sequences that style it (ECMA-48, "CSI").
pub fn without_styles(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, sequence)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        let body = sequence.strip_prefix('[').unwrap_or(sequence);
        let end = body.find(|c: char| c.is_ascii_alphabetic()).map_or(body.len(), |end| end + 1);
        rest = &body[end..];
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    #[test]
    fn all_styles_are_our_own() {
        // Colours (SGR) too: text in the background's colour is hidden.
        let hostile = "\u{1b}[8mx\u{1b}]0;title\u{7}\u{9b}5n\u{202e}";
        let mut text = StyledText::from(hostile);
        text.push_str(hostile);
        write!(text, "{hostile}").unwrap();
        let plain = "?[8mx?]0;title??5n?".repeat(3);
        assert_eq!(&*text, plain);
        text.push_bold("\u{1b}[0m");
        text.push_coloured([1, 2, 3], "a\u{1b}[31m");
        text.push_str("  ");
        text.trim_end();
        assert_eq!(&*text, format!("{plain}\u{1b}[1m?[0m\u{1b}[0m\u{1b}[38;2;1;2;3ma?[31m\u{1b}[0m"));
    }

    #[test]
    fn styles_of_others_are_taken_away() {
        assert_eq!(without_styles("\u{1b}[1;31merror\u{1b}[0m: no"), "error: no");
        assert_eq!(without_styles("cut \u{1b}[1;3"), "cut ");
    }
}
