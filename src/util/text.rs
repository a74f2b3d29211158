//! Text and numbers, formatted alike in all outputs.

use serde_json::Value;
use std::io;

/// The text of the file at `path`, which the kernel makes. Bytes that are not UTF-8 are replaced.
pub fn read_lossy(path: &str) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}

/// Whether `c` is not shown itself, or changes how a terminal or a page shows other text: control characters, those that
/// change the direction of text (U+202E), and all others that Unicode says to show as nothing (DerivedCoreProperties.txt,
/// Default_Ignorable_Code_Point), separators of lines, marks of annotations, and what is no character.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
            | '\u{fdd0}'..='\u{fdef}')
        || matches!(u32::from(c) & 0xffff, 0xfffe | 0xffff)
}

/// Whether a text in this JSON has a character that [`is_hidden`].
pub fn hides(json: &Value) -> bool {
    match json {
        Value::String(text) => text.contains(is_hidden),
        Value::Array(items) => items.iter().any(hides),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains(is_hidden) || hides(value)),
        _ => false,
    }
}

/// What the C library calls an error: strerror(3).
pub fn error_message(number: i32) -> String {
    let text = std::io::Error::from_raw_os_error(number).to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// `text` of others, in one line, with a question mark for each character that [`is_hidden`].
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { '?' } else { c }).collect()
}

/// [`clean`], except for the ends of lines and tabs.
pub fn clean_lines(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) && !matches!(c, '\n' | '\t') { '?' } else { c }).collect()
}

/// JSON in which characters that [`is_hidden`] are escaped, so that a terminal can show it and its values are the same.
pub(crate) fn clean_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        // Others than the ends of lines are inside of texts only.
        if is_hidden(c) && c != '\n' {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out
}

/// `text` with a capital first letter.
pub fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// A character for [`joined`] that no text of ours contains.
const JOINT: char = '\u{a0}';

/// `text` whose numbers are joined to their units (`3.6 %`, `2 GiB/s`), so that wrapping at spaces keeps them together;
/// [`unjoined`] reverses it.
pub fn joined(text: &str) -> String {
    const UNITS: [&str; 12] = ["%", "s", "ms", "us", "ns", "bytes", "KiB", "MiB", "GiB", "GiB/s", "CPU", "CPUs"];
    let mut out = String::with_capacity(text.len());
    let mut number = false;
    for (index, word) in text.split(' ').enumerate() {
        let unit = word.trim_end_matches(['.', ',', ';', ':', ')']);
        if index > 0 {
            out.push(if number && UNITS.contains(&unit) { JOINT } else { ' ' });
        }
        out.push_str(word);
        number = word.ends_with(|c: char| c.is_ascii_digit());
    }
    out
}

/// See [`joined`].
pub fn unjoined(text: &str) -> String {
    text.replace(JOINT, " ")
}

/// The time in UTC, in RFC 3339 format, in seconds.
pub fn now() -> String {
    let format = time::macros::format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    time::OffsetDateTime::now_utc().format(format).unwrap_or_default()
}

/// A count with thousands separators: `1,234,567`.
pub fn grouped(count: u64) -> String {
    in_groups(&count.to_string())
}

/// A number and a noun: `1 run`, `2 processes`, `8 KiB`.
pub fn counted(count: u64, what: &str) -> String {
    format!("{} {}", grouped(count), plural(count, what))
}

/// The form of a noun for so many: `run`, `processes`, `KiB`.
pub fn plural(count: u64, what: &str) -> String {
    let end = match what {
        _ if count == 1 || what.ends_with("iB") => "",
        _ if what.ends_with("ss") => "es",
        _ => "s",
    };
    format!("{what}{end}")
}

/// A change with its sign and one decimal; none that is shown as 0 has a sign.
pub fn signed(change: f64) -> String {
    let text = format!("{change:+.1}");
    if text.bytes().any(|byte| matches!(byte, b'1'..=b'9')) || !change.is_finite() { text } else { "0.0".to_owned() }
}

/// From this ratio on, a change is a factor: nobody reads `+3368.2 %`.
const FACTOR: f64 = 10.0;

/// A ratio that is too large for a change in percent: `34.7 times`. `None` for others.
pub fn factor(ratio: f64) -> Option<String> {
    (ratio >= FACTOR && ratio.is_finite())
        .then(|| if ratio < 100.0 { format!("{ratio:.1} times") } else { format!("{} times", rounded(ratio)) })
}

/// [`grouped`] for `value`, rounded to a whole number.
pub fn rounded(value: f64) -> String {
    let text = in_groups(&format!("{:.0}", value.abs()));
    if value < 0.0 { format!("-{text}") } else { text }
}

fn in_groups(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `word` as a shell reads it as one word.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=,./:+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// FNV-1a (64 bits, RFC 9923): a hash of a text, or of bytes, that is the same everywhere.
pub fn fnv1a(bytes: impl AsRef<[u8]>) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.as_ref().iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// The first two numbers of a version: (7, 2) of `7.2.13+deb14-cloud-amd64`.
pub fn two_numbers(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_are_shown_as_0_have_no_sign() {
        assert_eq!([-0.04, 0.0, 0.04, 0.06, -12.34].map(signed), ["0.0", "0.0", "0.0", "+0.1", "-12.3"]);
        assert_eq!(signed(f64::INFINITY), "+inf");
    }

    #[test]
    fn large_changes_are_factors() {
        assert_eq!([34.682, 10.0, 2853.4].map(factor).map(Option::unwrap), ["34.7 times", "10.0 times", "2,853 times"]);
        assert!([9.9, 0.0, -34.0, f64::NAN, f64::INFINITY].into_iter().all(|ratio| factor(ratio).is_none()));
    }

    #[test]
    fn nouns_have_their_plural() {
        let of = |count| ["byte", "process", "KiB"].map(|what| counted(count, what)).join(", ");
        assert_eq!([of(1), of(2000)], ["1 byte, 1 process, 1 KiB", "2,000 bytes, 2,000 processes, 2,000 KiB"]);
    }

    #[test]
    fn thousands_are_apart() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([12_345.6, -1234.0].map(rounded), ["12,346", "-1,234"]);
    }

    /// Controls, directions, invisible characters, tags, and what is no character.
    const HIDDEN: &str = "\u{0}\u{1b}\u{7f}\u{9b}\u{ad}\u{61c}\u{200b}\u{200d}\u{200f}\u{2028}\u{202e}\u{2066}\u{feff}\u{fe0f}\u{e0041}\u{ffff}";

    #[test]
    fn what_is_hidden_is_replaced_and_the_first_letter_is_a_capital() {
        assert_eq!(clean("a\u{1b}[2J\nb"), "a?[2J?b");
        assert_eq!(clean_lines("a\u{1b}[2J\r\n\tb"), "a?[2J?\n\tb");
        assert_eq!(clean(HIDDEN), "?".repeat(HIDDEN.chars().count()));
        let shown = "naïve größe 名前 עברית 😀 e\u{301} \u{e0b0} ½ ×→…";
        assert_eq!(clean(shown), shown);
        assert_eq!((capitalized("the end"), capitalized("")), ("The end".to_owned(), String::new()));
    }

    #[test]
    fn json_keeps_its_values() {
        let value = serde_json::json!({ "a": format!("x{HIDDEN}\n\t\"😀") });
        let shown = clean_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!shown.chars().any(|c| is_hidden(c) && c != '\n'), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn versions_have_two_numbers() {
        for (text, numbers) in [
            ("7.2.13+deb14-cloud-amd64\n", Some((7, 2))),
            ("7.3-rc1", Some((7, 3))),
            ("5.10.0-36-amd64", Some((5, 10))),
            ("6.18.44-fc-v669", Some((6, 18))),
            ("5.19", Some((5, 19))),
            ("next", None),
        ] {
            assert_eq!(two_numbers(text), numbers, "{text}");
        }
    }
}
