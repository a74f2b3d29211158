//! The names of processes and stages for people: the program, with its script if that is an interpreter, and what tells it
//! from others of that name.

use crate::record::model::stages::{self, Stages};
use crate::record::start::command_line::{operands, program_name};
use crate::result::{Container, Document, RecordedProcess};
use crate::util::text::clean;
use std::collections::BTreeMap;

/// A word that tells processes apart is cut after so many characters.
const LONGEST: usize = 24;

/// Processes that lived for a smaller part of the window are brief.
const BRIEF: u64 = 20;

/// The names of the processes: `gzip`, `python3 server.py`. Of several with one name, those that differ in their command
/// lines get the first word that does, `dd if=a` and `dd of=b`; others the number of their stage, `cat (stage 2)`, if they
/// are the whole of it, or else their process id, `cat (4711)`.
pub(crate) fn labels(recording: &Document) -> Vec<String> {
    let (mut labels, brief) = told_apart(recording);
    for at in brief {
        labels[at].extend(number(recording, at).map(|pid| format!(" ({pid})")));
    }
    let mut of_stages: BTreeMap<u32, u64> = BTreeMap::new();
    recording.recorded.iter().for_each(|process| *of_stages.entry(process.stage).or_default() += 1);
    let typed = recording.target.stages().len() > 1;
    let whole = |at: usize| typed && of_stages.get(&recording.recorded[at].stage) == Some(&1);
    for same in namesakes(&labels) {
        for at in same {
            let stage = recording.recorded[at].stage;
            let which = if whole(at) { Some(format!("stage {}", stage + 1)) } else { number(recording, at) };
            labels[at].extend(which.map(|which| format!(" ({which})")));
        }
    }
    // Many processes of one name that have nothing else of their own.
    for same in namesakes(&labels) {
        for (number, at) in (2..).zip(same.into_iter().skip(1)) {
            labels[at] = format!("{}-{number}", labels[at]);
        }
    }
    labels
}

/// The names without the numbers of stages and processes, and those of namesakes that are brief.
pub(crate) fn told_apart(recording: &Document) -> (Vec<String>, Vec<usize>) {
    let plain: Vec<String> =
        recording.recorded.iter().map(|process| clean(&program_name(&process.name, &process.args))).collect();
    let mut labels = plain.clone();
    let mut all_brief = Vec::new();
    // A process that has been forked has the name of its parent until it executes another program.
    let window = recording.processes.window_ns;
    let is_brief = |process: &RecordedProcess| process.execs == 0 && process.lived_ns < window / BRIEF;
    for same in namesakes(&plain) {
        let (brief, same): (Vec<usize>, Vec<usize>) =
            same.into_iter().partition(|at| is_brief(&recording.recorded[*at]));
        all_brief.extend(brief);
        // Of many in a row, the command line of a few says nothing.
        let words: Vec<&[String]> = same
            .iter()
            .map(|at| &recording.recorded[*at])
            .map(|process| if has_line(process) { operands(&process.args) } else { &[] })
            .collect();
        let differ = |words: &[&[String]]| {
            (0..).find(|word| {
                let of = words.iter().map(|words| words.get(*word)).collect::<Vec<_>>();
                of.iter().all(Option::is_none) || of.windows(2).any(|pair| pair[0] != pair[1])
            })
        };
        // One without a command line does not tell which word of the others is their own.
        let known: Vec<&[String]> = words.iter().filter(|words| !words.is_empty()).copied().collect();
        let first = if known.len() > 1 { differ(&known) } else { differ(&words) };
        for (at, words) in same.iter().zip(&words) {
            // `-c 3`, as the number alone would be a file.
            let option = first.and_then(|first| words.get(first.checked_sub(1)?)).filter(|word| is_short_option(word));
            let word = first.and_then(|first| words.get(first)).map(|word| cut(word));
            let word = option.zip(word.as_ref()).map(|(option, word)| format!("{option} {word}")).or(word);
            labels[*at] = [Some(plain[*at].clone()), word].into_iter().flatten().collect::<Vec<_>>().join(" ");
        }
    }
    (labels, all_brief)
}

/// Whether the command line of a row is that of most of its processes.
fn has_line(process: &RecordedProcess) -> bool {
    let all = process.pids.len() as u64;
    all <= 1 || 2 * process.same_args.max(1) > all
}

/// The names of the stages: those of their processes; of a stage of several, that of the program that was typed, or else of
/// the one that was longest on a CPU.
pub(crate) fn of_stages(recording: &Document, stages: &Stages) -> Vec<String> {
    let labels = labels(recording);
    let mut names: Vec<String> = stages
        .iter()
        .enumerate()
        .map(|(stage, members)| match members[..] {
            [only] => labels[only].clone(),
            _ => clean(&stages::plain(recording, stage, members)),
        })
        .collect();
    for same in namesakes(&names) {
        same.iter().for_each(|stage| names[*stage] = format!("{} (stage {})", names[*stage], stage + 1));
    }
    names
}

/// Groups of places with one name.
fn namesakes(names: &[String]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    names.iter().enumerate().for_each(|(at, name)| places.entry(name).or_default().push(at));
    places.into_values().filter(|same| same.len() > 1).collect::<Vec<_>>().into_iter()
}

/// `` `sh` (process 4711)``, by a name that may be empty; `` `sh` (process 4711, 7 in container web)`` of one in a container.
pub(crate) fn with_id(name: &str, pid: u32, inner: Option<u32>, container: Option<&Container>) -> String {
    let container = container.map(|container| format!("in container {}", clean(container.title())));
    let within = match (inner, container) {
        (None, None) => String::new(),
        (Some(inner), None) => format!(", {inner} inside"),
        (None, Some(container)) => format!(", {container}"),
        (Some(inner), Some(container)) => format!(", {inner} {container}"),
    };
    match name {
        "" => format!("process {pid}{within}"),
        _ => format!("`{}` (process {pid}{within})", clean(name)),
    }
}

/// Whether it is an option of one letter, whose value can be the next word.
fn is_short_option(word: &str) -> bool {
    word.len() == 2 && word.starts_with('-') && word.ends_with(|letter: char| letter.is_ascii_alphabetic())
}

fn cut(word: &str) -> String {
    let word = clean(word);
    let short: String = word.chars().take(LONGEST).collect();
    if short.len() < word.len() { format!("{short}…") } else { short }
}

/// The id of a process; several in one row are counted where that matters.
fn number(recording: &Document, at: usize) -> Option<String> {
    let process = recording.recorded.get(at)?;
    let mut own = process.own_pids();
    let Some(first) = own.next() else {
        // Copies of their parent, each of which executed another program.
        return match process.pids[..] {
            [] => None,
            [only] => Some(only.to_string()),
            _ => Some(format!("{} copies", process.pids.len())),
        };
    };
    Some(match (process.inner_pids.as_slice(), own.count()) {
        ([inner], _) => format!("{first}, {inner} inside"),
        (_, 0) => first.to_string(),
        (_, more) => format!("{first} and {more} more"),
    })
}

/// Whether a row is one process. Those that it forked and that executed something else have rows of their own.
pub(crate) fn is_one(recording: &Document, at: usize) -> bool {
    recording.recorded.get(at).is_some_and(|process| process.is_one())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::model::stages::tests::shell;

    /// Processes of a shell with these command lines.
    fn named(lines: &[&str]) -> Vec<String> {
        let names: Vec<&str> = lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
        let mut recording = shell(names, &[]);
        for (pid, (process, line)) in (1..).zip(recording.recorded.iter_mut().zip(lines)) {
            process.args = line.split(' ').map(str::to_owned).collect();
            (process.pids, process.execs) = (vec![pid], 1);
        }
        labels(&recording)
    }

    #[test]
    fn a_program_has_its_name_and_its_script() {
        assert_eq!(named(&["gzip -1", "python3 server.py", "sh -c x"]), ["gzip", "python3 server.py", "sh"]);
    }

    #[test]
    fn namesakes_differ_by_what_was_typed_or_by_their_number() {
        assert_eq!(named(&["dd bs=1 if=a", "dd bs=1 of=b"]), ["dd if=a", "dd of=b"]);
        assert_eq!(named(&["cat", "cat a", "wc"]), ["cat", "cat a", "wc"]);
        assert_eq!(named(&["cat", "cat a b", "cat a c"]), ["cat", "cat b", "cat c"]);
        assert_eq!(named(&["cat", "cat"]), ["cat (1)", "cat (2)"]);
        assert_eq!(named(&["python3 a.py", "python3 b.py"]), ["python3 a.py", "python3 b.py"]);
        assert_eq!(named(&["sh -c a", "sh -c b"]), ["sh (1)", "sh (2)"]);
        // Before it executes what its parent wanted.
        let mut forked = shell(["sh", "sh"], &[]);
        (forked.recorded[1].pids, forked.recorded[0].execs) = (vec![7], 1);
        assert_eq!(labels(&forked), ["sh", "sh (7)"]);
        let mut starts = shell(["sh", "sh", "sleep"], &[]);
        for (process, pids) in starts.recorded.iter_mut().zip([vec![1], vec![2, 3], vec![3]]) {
            (process.pids, process.execs) = (pids, 1);
        }
        starts.recorded[1].moved_on = vec![3];
        assert_eq!(labels(&starts), ["sh (1)", "sh (2)", "sleep"]);
        starts.recorded[1].moved_on = vec![2, 3];
        assert_eq!(labels(&starts), ["sh (1)", "sh (2 copies)", "sleep"]);
        let long = format!("cat {}", "x".repeat(99));
        assert_eq!(named(&[&long, "cat y"])[0], format!("cat {}…", "x".repeat(24)));
    }
}
