//! What processes wrote to their standard error: the begin, and the last line.

use crate::record::observe::raw::{PrSaid, PrWho};
use crate::result::{ProcessWords, RecordedProcess};
use crate::util::styled_text::without_styles;
use std::collections::BTreeMap;

/// Give each row what one of its processes wrote last.
pub(crate) fn add_words(processes: &mut [RecordedProcess], said: &[(PrWho, PrSaid)], index: &BTreeMap<PrWho, usize>) {
    let mut latest: BTreeMap<usize, &PrSaid> = BTreeMap::new();
    for (who, words) in said {
        if let Some(at) = index.get(who) {
            let known = latest.entry(*at).or_insert(words);
            *known = if words.at >= known.at { words } else { known };
        }
    }
    for (at, words) in latest {
        processes[at].words = spoken(words);
    }
}

fn spoken(said: &PrSaid) -> Option<ProcessWords> {
    let text = |words: &[u64], length: u64| {
        let bytes: &[u8] = bytemuck::cast_slice(words);
        plain(&bytes[..bytes.len().min(length as usize)])
    };
    let (first, last) = (text(&said.first, said.first_length), text(&said.last, said.last_length));
    let last = last.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim_end().to_owned();
    let begin = first.trim().to_owned();
    (!begin.is_empty()).then_some(ProcessWords { begin, last, unfinished: said.unfinished > 0 })
}

/// Without styles, and without characters that are cut.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    // A bar that shows progress begins anew.
    without_styles(text.trim_matches(char::REPLACEMENT_CHARACTER)).replace('\r', "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable as _;

    fn words(first: &str, last: &str) -> Option<ProcessWords> {
        let mut said = PrSaid { first_length: first.len() as u64, last_length: last.len() as u64, ..PrSaid::zeroed() };
        bytemuck::cast_slice_mut(&mut said.first)[..first.len()].copy_from_slice(first.as_bytes());
        bytemuck::cast_slice_mut(&mut said.last)[..last.len()].copy_from_slice(last.as_bytes());
        spoken(&said)
    }

    #[test]
    fn words_are_the_begin_and_the_last_line() {
        let of = |first: &str, last: &str| words(first, last).map(|words| [words.begin, words.last]);
        let two = |first: &str, last: &str| Some([first.to_owned(), last.to_owned()]);
        assert_eq!(of("a: no\nTry\n", "Try\n"), two("a: no\nTry", "Try"));
        assert_eq!(of("error: no\n", "\n\r 10 %\r 20 %"), two("error: no", " 20 %"));
        assert_eq!(of("\n", "\n"), None);
    }
}
