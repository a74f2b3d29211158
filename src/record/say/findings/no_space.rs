//! Writes for which the device had no room.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind, RecordedProcess};
use crate::util::text::grouped;

/// `` `hexdump` could not write 3,072 times, because the device has no room (ENOSPC): its output is not complete. ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let failed = view.document.recorded.iter().enumerate().filter(|(_, process)| process.without_space > 0);
    let text = |(at, process): (usize, &RecordedProcess)| {
        let count = process.without_space;
        let (times, went_on) = if count == 1 {
            ("once".to_owned(), "")
        } else {
            (format!("{} times", grouped(count)), ", and went on all the same")
        };
        let text = format!(
            "{} could not write {times}, because there was no room on the device (ENOSPC){went_on}: its output is not complete. \
             `df` shows which file system is full.",
            view.name(at)
        );
        Finding { count: Some(count), ..Finding::new(FindingKind::NoSpace, [at], text) }
    };
    failed.map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;

    #[test]
    fn writes_without_room_are_said() {
        let failed = |count| said(find, &|recording| recording.recorded[1].without_space = count);
        let text = "`grep` could not write 3,072 times, because there was no room on the device (ENOSPC), and went on all the same: \
                    its output is not complete. `df` shows which file system is full.";
        assert_eq!(failed(3072), [text]);
        assert!(
            failed(1)[0]
                .starts_with("`grep` could not write once, because there was no room on the device (ENOSPC): its")
        );
        assert!(failed(0).is_empty());
    }
}
