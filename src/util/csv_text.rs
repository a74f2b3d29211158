//! Tables as CSV (RFC 4180), which people open with spreadsheets.

use super::text::clean;
use std::borrow::Cow;

/// The text of a table: its header and its rows. Names are from other programs: what is hidden is replaced, and a
/// text that a spreadsheet would execute as a formula begins with an apostrophe.
pub fn csv_text<R: AsRef<[C]>, C: AsRef<str>>(rows: impl IntoIterator<Item = R>) -> String {
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row.as_ref().iter().map(|text| cell(text.as_ref())).collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

fn cell(text: &str) -> String {
    let mut cell = Cow::from(clean(text));
    if cell.starts_with(['=', '+', '-', '@']) && cell.parse::<f64>().is_err() {
        cell = format!("'{cell}").into();
    }
    if cell.contains([',', '"']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula_or_has_hidden_characters() {
        let odd = ["=cmd|A", "@SUM(1)", "+1+1", "-x", "a\u{1b}[2J\nb\tc\u{202e}d", "a,b", "\"q\"", "=1,2"];
        assert_eq!(csv_text([odd]), "'=cmd|A,'@SUM(1),'+1+1,'-x,a?[2J?b?c?d,\"a,b\",\"\"\"q\"\"\",\"'=1,2\"\n");
        assert_eq!(csv_text([["-1.5", "+2", "-inf", "1e-3", ""]]), "-1.5,+2,-inf,1e-3,\n");
    }
}
