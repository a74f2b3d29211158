//! Exit codes of children that nobody can get any more.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind};
use crate::util::text::{grouped, plural};

/// `` `perl a.pl` waited for a child that was gone (ECHILD): its exit code is lost. ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    // Who has started none asks for processes of others.
    let lost = |process: &crate::result::RecordedProcess| process.gone_children > 0 && process.forks > 0;
    let processes = view.document.recorded.iter().enumerate().filter(|(_, process)| lost(process));
    let text = |(at, process): (usize, &crate::result::RecordedProcess)| {
        let count = process.gone_children;
        let (which, of) = if count == 1 {
            ("a child that was gone already".to_owned(), "its exit code is")
        } else {
            (format!("{} {} that were gone already", grouped(count), plural(count, "process")), "their exit codes are")
        };
        let text = format!(
            "{} waited for {which} (ECHILD): {of} lost. It ignores SIGCHLD, so that the kernel keeps no ended children, or has \
             waited for any child elsewhere, as in a signal handler.",
            view.name(at)
        );
        Finding { count: Some(count), ..Finding::new(FindingKind::LostChild, [at], text) }
    };
    processes.map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;

    #[test]
    fn a_lost_exit_code_is_said() {
        let lost = |gone_children: u64, forks: u64| {
            said(find, &|recording| {
                (recording.recorded[0].gone_children, recording.recorded[0].forks) = (gone_children, forks);
            })
        };
        let text = "`seq` waited for a child that was gone already (ECHILD): its exit code is lost. It ignores SIGCHLD, so that the \
                    kernel keeps no ended children, or has waited for any child elsewhere, as in a signal handler.";
        assert_eq!(lost(1, 1), [text]);
        assert!(
            lost(2, 2)[0].starts_with(
                "`seq` waited for 2 processes that were gone already (ECHILD): their exit codes are lost."
            )
        );
        assert!(lost(1, 0).is_empty() && lost(0, 1).is_empty());
    }
}
