//! What each file of a tree contained when it was built, and when it had been changed: whether make sees by the files' times
//! all that was changed since.

use crate::util::sha256;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// The begin of a SHA-256: two of a million files are not equal by chance.
const DIGITS: usize = 24;

/// By name and kind, what is there, and the nanoseconds of its time; 0 for what is no file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileStamps(BTreeMap<String, (String, u128)>);

impl FileStamps {
    /// `modified`: of a file.
    pub(super) fn add(&mut self, [name, kind, content]: [&[u8]; 3], modified: Option<SystemTime>) {
        let short = |parts: &[&[u8]]| {
            let mut digest = sha256::of_parts(parts);
            digest.truncate(DIGITS);
            digest
        };
        self.0.insert(short(&[name, kind]), (short(&[content]), modified.map_or(0, nanoseconds)));
    }

    /// Whether make, with the objects that a build of `then` had when it `ended`, compiles again what has changed: all that is
    /// other content, or has another time, was changed after that. What was copied with its old time, or while make read
    /// it, is not seen, and neither is another place that a link leads to.
    pub(super) fn are_seen_by_make(&self, then: &Self, ended: SystemTime) -> bool {
        let ended = nanoseconds(ended);
        self.0.iter().all(|(name, now)| then.0.get(name) == Some(now) || now.1 > ended)
    }

    /// A line for each.
    pub(super) fn to_text(&self) -> String {
        self.0.iter().map(|(name, (content, changed))| format!("{name} {content} {changed}\n")).collect()
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let line = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            Some((words.next()?, (words.next()?, words.next()?.parse().ok()?)))
        };
        text.lines().map(line).collect::<Option<_>>().map(Self)
    }
}

fn nanoseconds(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn make_sees_only_what_is_newer_than_its_objects() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let of = |files: &[(&str, &str, &str, Option<u64>)]| {
            let mut stamps = FileStamps::default();
            for (name, kind, content, time) in files {
                stamps.add([name.as_bytes(), kind.as_bytes(), content.as_bytes()], time.map(at));
            }
            stamps
        };
        let built = of(&[("a", "file", "x", Some(10)), ("b", "link", "a", None)]);
        let is_seen = |name, kind, content, time| {
            let mut now = built.clone();
            now.0.extend(of(&[(name, kind, content, time)]).0);
            now.are_seen_by_make(&built, at(50))
        };
        assert!(built.are_seen_by_make(&built, at(50)));
        assert!(is_seen("a", "file", "y", Some(60)) && is_seen("c", "file", "y", Some(60)));
        // Edited meanwhile, copied with its old time, or replaced by an older file with the same content.
        for time in [50, 30, 5] {
            assert!(!is_seen("a", "file", "y", Some(time)) && !is_seen("a", "file", "x", Some(time)), "{time}");
            assert!(!is_seen("c", "file", "y", Some(time)), "{time}");
        }
        assert!(!is_seen("b", "link", "c", None));
        assert_eq!(FileStamps::parse(&built.to_text()), Some(built.clone()));
        assert_eq!(FileStamps::parse("x y"), None);
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_of_a_tree_is_read(files: Vec<([Vec<u8>; 3], Option<u64>)>) {
            let mut stamps = FileStamps::default();
            for ([name, kind, content], modified) in &files {
                let modified = modified.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds >> 2));
                stamps.add([name, kind, content], modified);
            }
            proptest::prop_assert_eq!(FileStamps::parse(&stamps.to_text()), Some(stamps));
        }
    }
}
