//! Reads and writes that are not recorded.

use crate::record::say::findings::view::FindingView;
use crate::record::say::first_of::first_of;
use crate::result::{Finding, FindingKind};
use crate::util::text::counted;

/// `` `fio` uses io_uring, whose reads and writes are not recorded. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let of = |at, count, text| Finding { count: Some(count), ..Finding::new(FindingKind::Unseen, [at], text) };
    let processes = view.document.recorded.iter().enumerate();
    let found = processes.flat_map(|(at, process)| {
        let (name, [rings, requests]) = (&process.name, [process.io_uring_calls, process.unseen_requests]);
        let are = if requests == 1 { "is" } else { "are" };
        let not = format!("of which {} {are} not recorded", counted(requests, "request"));
        [
            (rings > 0)
                .then(|| of(at, rings, format!("`{name}` uses io_uring, whose reads and writes are not recorded."))),
            (requests > 0).then(|| of(at, requests, format!("`{name}` uses io_submit, {not}."))),
        ]
    });
    first_of(found.flatten())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;

    #[test]
    fn what_is_not_recorded_is_said() {
        let found = said(find, &|recording| {
            recording.recorded[0].io_uring_calls = 7;
            recording.recorded[1].unseen_requests = 2;
        });
        let uring = "`seq` uses io_uring, whose reads and writes are not recorded.";
        assert_eq!(found, [uring, "`grep` uses io_submit, of which 2 requests are not recorded."]);
    }
}
