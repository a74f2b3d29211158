//! Who waits for a server of names that does not answer.

use crate::record::say::findings::view::FindingView;
use crate::report::number::{percent, time};
use crate::result::{Finding, FindingKind, NameUse, NamedFile, WaitReason};
use crate::util::text::counted;

/// The path of a name that stands for the port of name servers.
const PORT: &str = "port 53";

/// Shorter waits, ns, and a smaller part of the window, are for something else.
const LONG_NS: u64 = 1_000_000_000;
const MUCH: f64 = 0.2;

/// `` `sshd` asked a name server (port 53) 3 times and got no answer in time: it waited 9.00 s in all ... ``
pub(crate) fn name_server(view: &FindingView<'_>) -> Vec<Finding> {
    let asked = |named: &&NamedFile| named.does == NameUse::Connects && named.path == PORT && named.error.is_none();
    let found = view.document.named_files.iter().filter(asked).filter_map(|named| {
        let process = view.document.recorded.get(named.process).filter(|process| process.timeouts > 0)?;
        let ns = process.waits.get(&WaitReason::Poll)?.ns;
        let each = ns / process.timeouts;
        if each < LONG_NS || (ns as f64) < MUCH * view.window() {
            return None;
        }
        let text = format!(
            "{} asked a name server (port 53) {} and waited in `poll` until its time was over ({}, {} in all, {} of the time): it got no answer. \
             That is a look-up of a name, or of the name of an address, as servers do for their log. Help: a server in `/etc/resolv.conf` that \
             answers, a line in `/etc/hosts`, or an option without look-ups (`-n`, `UseDNS no`).",
            view.name(named.process),
            counted(named.calls, "time"),
            counted(process.timeouts, "time"),
            time(ns as f64 / 1e9),
            percent(ns as f64 / view.window())
        );
        let finding = Finding::new(FindingKind::Refused, [named.process], text);
        Some(Finding { count: Some(process.timeouts), ns: Some(ns), ..finding })
    });
    found.take(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::{Document, NameError, WaitTotal};

    #[test]
    fn a_server_of_names_that_does_not_answer_is_said() {
        let asks = |change: &dyn Fn(&mut Document)| {
            said(name_server, &|recording| {
                let process = &mut recording.recorded[0];
                process.timeouts = 1;
                process.waits = [(WaitReason::Poll, WaitTotal { ns: WINDOW / 2, count: 2 })].into();
                let named =
                    NamedFile { path: PORT.to_owned(), does: NameUse::Connects, calls: 1, ..NamedFile::default() };
                recording.named_files = vec![named];
                change(recording);
            })
        };
        let begin = "`seq` asked a name server (port 53) 1 time and waited in `poll` until its time was over (1 time, 2.00 s in all, 50 % of";
        assert!(asks(&|_| {}).concat().starts_with(begin), "{:?}", asks(&|_| {}));
        silent(
            &asks,
            &[
                &|recording| recording.recorded[0].timeouts = 0,
                &|recording| recording.named_files[0].error = Some(NameError::Refused),
                &|recording| recording.named_files[0].path = "port 80".to_owned(),
                &|recording| recording.recorded[0].timeouts = 100,
            ],
        );
    }
}
