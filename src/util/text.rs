//! Text and numbers, formatted alike in all outputs.

use clap::ValueEnum;
use std::borrow::Cow;
use std::io;

/// The text of the file at `path`, which the kernel makes. Bytes that are not UTF-8 are replaced.
pub(crate) fn read_lossy(path: &str) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}

/// `text` without control characters, which could change a terminal's state.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// [`clean`], except for the ends of lines and tabs.
pub(crate) fn clean_lines(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && !matches!(c, '\n' | '\t') { '?' } else { c }).collect()
}

/// [`clean_lines`], except for sequences that choose a colour or weight (`ESC [ 1 m`), with which this program styles
/// its own tables. Others could move the cursor, type into the shell or set the title.
pub(crate) fn clean_styled(text: &str) -> Cow<'_, str> {
    if !text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')) {
        return Cow::Borrowed(text);
    }
    let mut pieces = text.split('\u{1b}');
    let mut out = clean_lines(pieces.next().unwrap_or_default());
    for piece in pieces {
        let parameters = piece.strip_prefix('[').and_then(|rest| rest.split_once('m'));
        let is_style = parameters.is_some_and(|(numbers, _)| numbers.chars().all(|c| c.is_ascii_digit() || c == ';'));
        out.push(if is_style { '\u{1b}' } else { '?' });
        out.push_str(&clean_lines(piece));
    }
    Cow::Owned(out)
}

/// `text` with a capital first letter.
pub(crate) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// The name of `value` on the command line.
pub(crate) fn value_name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// A character for [`joined`] that no text of ours contains.
const JOINT: char = '\u{a0}';

/// `text` whose numbers are joined to their units (`3.6 %`, `2 GiB/s`), so that wrapping at spaces keeps them together;
/// [`unjoined`] reverses it.
pub(crate) fn joined(text: &str) -> String {
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
pub(crate) fn unjoined(text: &str) -> String {
    text.replace(JOINT, " ")
}

/// The time in UTC, in RFC 3339 format, in seconds.
pub(crate) fn now() -> String {
    let format = time::macros::format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    time::OffsetDateTime::now_utc().format(format).unwrap_or_default()
}

/// A count with thousands separators: `1,234,567`.
pub(crate) fn grouped(count: u64) -> String {
    in_groups(&count.to_string())
}

/// A number and a noun: `1 run`, `2 processes`, `8 KiB`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{} {}", grouped(count), plural(count, what))
}

/// The form of a noun for so many: `run`, `processes`, `KiB`.
pub(crate) fn plural(count: u64, what: &str) -> String {
    let end = match what {
        _ if count == 1 || what.ends_with("iB") => "",
        _ if what.ends_with("ss") => "es",
        _ => "s",
    };
    format!("{what}{end}")
}

/// A change with its sign and one decimal; none that is shown as 0 has a sign.
pub(crate) fn signed(change: f64) -> String {
    let text = format!("{change:+.1}");
    if text.bytes().any(|byte| matches!(byte, b'1'..=b'9')) || !change.is_finite() { text } else { "0.0".to_owned() }
}

/// [`grouped`] for `value`, rounded to a whole number.
pub(crate) fn rounded(value: f64) -> String {
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
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=,./:+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// FNV-1a (64 bits, RFC 9923): a hash of a text that is the same everywhere.
pub(crate) fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The first two numbers of a version: (7, 2) of `7.2.13+deb14-cloud-amd64`.
pub(crate) fn two_numbers(version: &str) -> Option<(u32, u32)> {
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
    fn nouns_have_their_plural() {
        let of = |count| ["byte", "process", "KiB"].map(|what| counted(count, what)).join(", ");
        assert_eq!([of(1), of(2000)], ["1 byte, 1 process, 1 KiB", "2,000 bytes, 2,000 processes, 2,000 KiB"]);
    }

    #[test]
    fn thousands_are_apart() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([12_345.6, -1234.0].map(rounded), ["12,346", "-1,234"]);
    }

    #[test]
    fn control_characters_are_replaced_and_the_first_letter_is_a_capital() {
        assert_eq!(clean("a\u{1b}[2J\nb"), "a?[2J?b");
        assert_eq!(clean_lines("a\u{1b}[2J\r\n\tb"), "a?[2J?\n\tb");
        let styled = "\u{1b}[1;31mred\u{1b}[0m\n\tx";
        assert_eq!(clean_styled(styled), styled);
        let hostile = "\u{1b}]0;title\u{7}\u{1b}[2J\u{1b}[3m\u{9b}5n\u{1b}";
        assert_eq!(clean_styled(hostile), "?]0;title??[2J\u{1b}[3m?5n?");
        assert_eq!((capitalized("the end"), capitalized("")), ("The end".to_owned(), String::new()));
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
