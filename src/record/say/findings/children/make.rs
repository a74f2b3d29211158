//! `make` that starts another one without its job server.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind, RecordedProcess};

/// Fewer are no work for several.
const LEAST: usize = 3;

/// Of the time of the inner one, its programs live for so much, one at a time.
const ALONE: [f64; 2] = [0.5, 1.15];

/// `` `make -j6` started `make -C lib` without its job server, so that it runs one job at a time: ... ``
///
/// One that has no server says so on its standard error when it begins (GNU make: "jobserver unavailable"). One with a server can have
/// nothing that runs at once, but has nothing to say.
pub(crate) fn without_server(view: &FindingView<'_>) -> Option<Finding> {
    let all = &view.document.recorded;
    if let Some(found) = told_so(view) {
        return Some(found);
    }
    all.iter().enumerate().find_map(|(at, inner)| {
        let outer = view.with_starters(at).skip(1).find(|of| jobs(&all[*of]).is_some())?;
        let own = |of: &&RecordedProcess| of.started_by == Some(at) && of.execs > 0;
        let started: usize = all.iter().filter(own).map(|of| of.pids.len()).sum();
        let lived: u64 = all.iter().filter(own).map(|of| of.lived_ns).sum();
        let is_alone = (ALONE[0]..=ALONE[1]).contains(&(lived as f64 / inner.lived_ns.max(1) as f64));
        let told = inner.errors > 0 && is_make(inner) && jobs(inner).is_none();
        (told && is_alone && started >= LEAST).then(|| {
            let text = format!(
                "`{} {}` started {} without its job server, so that it runs one job at a time: the recipe has to call it as `$(MAKE)`, not \
                 by its name, or to begin with `+`.",
                all[outer].name,
                jobs(&all[outer]).unwrap_or_default(),
                view.name(at)
            );
            Finding::new(FindingKind::NoJobServer, [at, outer], text)
        })
    })
}

/// What GNU make writes then.
const UNAVAILABLE: &str = "jobserver unavailable";

/// The same where it was read what the inner one wrote. That can be in a row with copies of the outer one.
fn told_so(view: &FindingView<'_>) -> Option<Finding> {
    let mut all = view.document.recorded.iter().enumerate();
    let says = |of: &RecordedProcess| of.words.as_ref().is_some_and(|words| words.begin.contains(UNAVAILABLE));
    let (inner, _) = all.clone().find(|(_, of)| is_make(of) && says(of))?;
    // Shells leave descriptors open.
    let process = |of: usize| &view.document.recorded[of];
    let above: Vec<usize> = view.with_starters(inner).skip(1).collect();
    let outermost = above.iter().position(|of| jobs(process(*of)).is_some());
    let is_plain = outermost.is_some_and(|at| above[..at].iter().all(|of| process(*of).is_shell()));
    let closes = if is_plain {
        ""
    } else {
        ", and what stands between the two must not close the descriptors of the server, which MAKEFLAGS names (in Python `close_fds=False`)"
    };
    let (outer, make) = all.find(|(_, of)| jobs(of).is_some())?;
    let text = format!(
        "`{} {}` has started another `make` without its job server (\"{UNAVAILABLE}\"), so that this runs one job at a time: the recipe has to call \
         it as `$(MAKE)`, not by its name, or to begin with `+`{closes}.",
        make.name,
        jobs(make).unwrap_or_default(),
    );
    Some(Finding::new(FindingKind::NoJobServer, [inner, outer], text))
}

fn is_make(process: &RecordedProcess) -> bool {
    matches!(process.name.as_str(), "make" | "gmake")
}

/// The option for more than one job at once.
pub(crate) fn jobs(process: &RecordedProcess) -> Option<&str> {
    if !is_make(process) {
        return None;
    }
    let is_it = |word: &&String| {
        let number = word.strip_prefix("-j").or_else(|| word.strip_prefix("--jobs="));
        number.is_some_and(|number| number.is_empty() || number.parse::<u32>().is_ok_and(|jobs| jobs > 1))
            || *word == "--jobs"
    };
    process.args.iter().find(is_it).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::effort::work::one_by_one;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::{Document, ProcessWords};

    #[test]
    fn a_make_without_a_job_server_is_said() {
        let makes = |change: &dyn Fn(&mut Document)| {
            said(one_by_one, &|recording| {
                let process = |line: &str, started_by: Option<usize>, lived_ns: u64| RecordedProcess {
                    name: line.split(' ').next().unwrap_or_default().to_owned(),
                    args: line.split(' ').map(str::to_owned).collect(),
                    pids: vec![7],
                    execs: 1,
                    started_by,
                    lived_ns,
                    ..RecordedProcess::default()
                };
                recording.recorded = vec![
                    process("make -j6", None, WINDOW),
                    process("make -C lib", Some(0), WINDOW),
                    process("gcc -c a.c", Some(1), WINDOW),
                ];
                (recording.recorded[1].errors, recording.recorded[2].pids) = (1, vec![8, 9, 10]);
                recording.channels.clear();
                change(recording);
            })
        };
        let text = "`make -j6` started `make -C` without its job server, so that it runs one job at a time: the recipe has to call it \
                    as `$(MAKE)`, not by its name, or to begin with `+`.";
        assert_eq!(makes(&|_| {}), [text]);
        let says = makes(&|recording| {
            let begin = "make[1]: warning: jobserver unavailable: using -j1.".to_owned();
            recording.recorded[1].words = Some(ProcessWords { begin, ..ProcessWords::default() });
        });
        assert!(
            says[0].starts_with("`make -j6` has started another `make` without its job server (\"jobserver"),
            "{says:?}"
        );
        silent(
            &makes,
            &[
                &|recording| recording.recorded[0].args[1] = "-j1".to_owned(),
                &|recording| recording.recorded[1].args.push("-j".to_owned()),
                &|recording| recording.recorded[1].errors = 0,
                &|recording| recording.recorded[2].lived_ns = 3 * WINDOW,
                &|recording| recording.recorded[2].pids = vec![8],
            ],
        );
    }
}
