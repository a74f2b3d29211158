//! Threads of the kernel that do what programs ask io_uring for.

use crate::record::say::findings::view::FindingView;
use crate::report::number::{percent, time};
use crate::result::{Finding, FindingKind};
use crate::util::text::{counted, grouped};

/// Their part of the requests from which on they are worth a sentence.
const SHARE: f64 = 0.1;

/// `` Threads of the kernel (iou-wrk) did 57 of the 77 requests of `rsync` to io_uring. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let window = view.document.processes.window_ns;
    let mut found = Vec::new();
    for (at, process) in view.document.recorded.iter().enumerate() {
        let (name, all, theirs) = (view.name(at), process.ring_requests, process.worker_requests);
        if theirs > 0 && theirs as f64 >= SHARE * all as f64 {
            let part = if theirs == all { "all".to_owned() } else { grouped(theirs) };
            let text = format!(
                "Threads of the kernel (iou-wrk) did {part} of the {} of {name} to io_uring, and woke it each time.",
                counted(all, "request")
            );
            found.push(Finding {
                count: Some(theirs),
                of: Some(all),
                ..Finding::new(FindingKind::RingThreads, [at], text)
            });
        }
        if process.poller_ns > 0 {
            let (spent, share) =
                (time(process.poller_ns as f64 / 1e9), percent(process.poller_ns as f64 / window.max(1) as f64));
            let text = format!(
                "A thread of the kernel (iou-sqp) polls for the requests of {name} to io_uring: it was on a CPU for \
                 {spent}, {share} of the time."
            );
            found.push(Finding { ns: Some(process.poller_ns), ..Finding::new(FindingKind::RingThreads, [at], text) });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;

    #[test]
    fn threads_of_the_kernel_are_named_where_they_do_the_work() {
        let of = |theirs, poller_ns| {
            said(find, &|recording| {
                recording.processes.window_ns = 2_000_000_000;
                recording.recorded[0].ring_requests = 77;
                recording.recorded[0].worker_requests = theirs;
                recording.recorded[0].poller_ns = poller_ns;
            })
        };
        let workers =
            "Threads of the kernel (iou-wrk) did 57 of the 77 requests of `seq` to io_uring, and woke it each time.";
        assert_eq!(of(57, 0), [workers]);
        assert_eq!(of(7, 0), Vec::<String>::new());
        let poller = of(0, 1_500_000_000).remove(0);
        assert!(poller.starts_with("A thread of the kernel (iou-sqp) polls") && poller.contains("75 %"), "{poller}");
    }
}
