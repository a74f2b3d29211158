//! Output that comes late, because its program buffers it.

use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::killed::by_others;
use crate::record::say::programs::{Does, does};
use crate::result::{Finding, FindingKind, RecordedEnd, RecordedProcess, WaitReason};
use crate::util::text::{clean, counted, grouped};

/// Reads that tell that the input came bit by bit, and the shortest time over which they are spread, ns.
const READS: u64 = 5;
const LONG_NS: u64 = 1_000_000_000;

/// From this part of the reads on, a first write is late, and this part of the time it waited for data.
const LATE: f64 = 0.8;
const WAITED: f64 = 0.5;

/// What adds up or counts writes less, if its command is not known: bytes, and of what it read.
const LEAST_BYTES: u64 = 32;
const LEAST_PART: f64 = 0.05;

/// A program that writes in blocks to a pipe.
struct Buffering {
    names: &'static [&'static str],
    /// Options of one letter, and parts of words, with which it does not, or can only write at the end.
    letters: &'static str,
    parts: &'static [&'static str],
    /// What it buffers.
    what: &'static str,
    /// What has it write at once; `{}` is its name.
    switch: &'static str,
}

/// Others that write only at their end, such as `sort` and `wc`, can do no better.
const BUFFERING: [Buffering; 5] = [
    Buffering {
        names: &["grep", "egrep", "fgrep"],
        letters: "cqlL",
        parts: &["--count", "--quiet", "--silent", "--files-with", "--line-buffered"],
        what: OUTPUT,
        switch: "`{} --line-buffered`",
    },
    Buffering { names: &["sed"], letters: "uz", parts: &["$", "--unbuffered"], what: OUTPUT, switch: "`sed -u`" },
    Buffering {
        names: &["mawk"],
        letters: "W",
        parts: &["END"],
        what: "input and output",
        switch: "`mawk -W interactive`, or `gawk`,",
    },
    Buffering {
        names: &["awk", "gawk", "original-awk"],
        letters: "W",
        parts: &["END"],
        what: OUTPUT,
        switch: "`-W interactive` (if it is mawk, as in Debian), or `fflush()` after `print` (if it is gawk),",
    },
    Buffering {
        names: &["jq"],
        letters: "s",
        parts: &["--slurp", "--unbuffered"],
        what: OUTPUT,
        switch: "`jq --unbuffered`",
    },
];

const OUTPUT: &str = "output";

/// Languages whose programs buffer what they print into a pipe, a word that stops it, and what to write.
const LANGUAGES: [(&str, &str, &str); 3] = [
    ("python", "-u", "`python3 -u`, or PYTHONUNBUFFERED=1,"),
    ("perl", "$|", "`$| = 1`"),
    ("ruby", "sync", "`$stdout.sync = true`"),
];

/// Sleeps between which a program had something to print.
pub(crate) const STEPS: u64 = 5;

/// Who writes this part of what was read at least does not only add up.
const AS_MUCH: f64 = 0.5;

/// What asks for fewer bytes at once reads no blocks.
const BLOCK: u64 = 1024;

/// Programs that know no such switch.
const WITH_STDBUF: [&str; 7] = ["tr", "cut", "uniq", "rev", "nl", "fold", "paste"];

/// `` `grep` read 23 times from 0 s on and wrote only at its end, at 4.00 s: it buffers its output. `grep --line-buffered`
/// writes at once. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let found = view.writers().filter_map(|(at, pipe, end)| {
        let process = view.process(end)?;
        // What it sends over a connection of its own, it does not print.
        let prints = pipe.kind.is_pipe() || process.output == Some(at);
        let text = sentence(view, end, process).or_else(|| prints.then(|| printed(view, at, end, process))?)?;
        let first = end.moved_ns.map(|[first, _]| first);
        Some(Finding { channels: vec![at], at_ns: first, ..Finding::new(FindingKind::Late, [end.process], text) })
    });
    let mut found: Vec<Finding> = found.collect();
    for (at, process) in view.document.recorded.iter().enumerate() {
        found.extend(silent(view, at, process));
        if !found.iter().any(|finding| finding.processes.contains(&at)) {
            found.extend(at_its_end(view, at, process).or_else(|| of_file(view, at, process)));
        }
    }
    found
}

fn sentence(view: &FindingView<'_>, end: &RecordedEnd, process: &RecordedProcess) -> Option<String> {
    let (remedy, what) = remedy(view, end.process, process)?;
    let reading: Vec<&RecordedEnd> =
        view.readers().filter(|(_, _, other)| other.process == end.process).map(|(_, _, end)| end).collect();
    let sum = |of: fn(&RecordedEnd) -> u64| reading.iter().map(|end| of(end)).sum::<u64>();
    let reads = sum(RecordedEnd::all_calls) - sum(|end| end.at_end);
    let times = || reading.iter().filter_map(|end| end.moved_ns);
    let first = times().map(|[first, _]| first).min()?;
    let last = times().map(|[_, last]| last).max()?;
    let over = last - first;
    // What has written nothing yet, and waits for more at the end of the recording.
    let until = view.document.processes.window_ns.min(process.end_ns);
    let is_cut = view.document.is_excerpt() || by_others(process) && reads > 1;
    let quiet = end.moved_ns.is_none() && is_cut && until.saturating_sub(first) >= LONG_NS;
    let waits = sum(|end| end.blocked_ns) as f64 >= WAITED * over as f64;
    if process.pids.len() > 1 || !waits || !quiet && (reads < READS || over < LONG_NS) {
        return None;
    }
    let name = view.name(end.process);
    let times = if reads == 1 { "once".to_owned() } else { format!("{} times", grouped(reads)) };
    let begin = format!("{name} read {times} from {} on and wrote", after(first));
    let Some([wrote, _]) = end.moved_ns else {
        // It may still have found nothing.
        let nothing = "nothing: what it has to write may be in its buffer.";
        return quiet.then(|| format!("{begin} {nothing} {remedy}."));
    };
    let small = end.bytes < LEAST_BYTES || (end.bytes as f64) < LEAST_PART * sum(|end| end.bytes) as f64;
    let is_late = wrote.saturating_sub(first) as f64 >= LATE * over as f64 && !(process.args.is_empty() && small);
    is_late.then(|| {
        let bytes = counted(end.bytes, "byte");
        format!("{begin} only at its end, {bytes} from {} on: it buffers its {what}. {remedy}.", after(wrote))
    })
}

/// One that is known to buffer and wrote a file, all of it at its end: `` `gawk` read 16 times from 1.02 s on and wrote `traffic.log` only ... ``
fn of_file(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<Finding> {
    let (remedy, what) = remedy(view, at, process).filter(|_| process.is_one())?;
    let mut reading = view.readers().filter(|(_, _, end)| end.process == at && end.bytes > 0);
    let (_, _, input) = reading.next().filter(|_| reading.next().is_none())?;
    let mut written =
        view.document.streams.iter().filter(|stream| stream.process == at && stream.writes && stream.bytes > 0);
    let stream = written.next().filter(|_| written.next().is_none())?;
    let [first, last] = input.moved_ns?;
    let (reads, over) = (input.all_calls() - input.at_end, last.saturating_sub(first));
    let came_slowly = reads >= READS && over >= LONG_NS && input.blocked_ns as f64 >= WAITED * over as f64;
    if !came_slowly || (stream.moved_ns[0].saturating_sub(first) as f64) < LATE * over as f64 {
        return None;
    }
    let text = format!(
        "{} read {} times from {} on and wrote `{}` only at its end, {} from {} on: it buffers its {what}. {remedy}.",
        view.name(at),
        grouped(reads),
        after(first),
        clean(&stream.file),
        counted(stream.bytes, "byte"),
        after(stream.moved_ns[0])
    );
    Some(Finding { at_ns: Some(stream.moved_ns[0]), ..Finding::new(FindingKind::Late, [at], text) })
}

/// A program that is not known and wrote about as much as it read, all of it at its end, although the input came bit by bit.
fn at_its_end(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<Finding> {
    let known = switch(process).is_some() || process.is_shell();
    // `samtools sort`, too.
    let named = [process.name.as_str(), process.args.get(1).map_or("", String::as_str)];
    let reads_all = |name: &str| [Does::WritesAtEnd, Does::Keeps].into_iter().any(|what| does(name, what));
    let all = process.args.is_empty() || named.into_iter().any(reads_all);
    if process.pids.len() != 1 || known || all {
        return None;
    }
    let mut reading = view.readers().filter(|(_, _, other)| other.process == at && other.bytes > 0);
    let (channel, _, input) = reading.next().filter(|_| reading.next().is_none())?;
    let ends = view.writers().filter(|(_, _, end)| end.process == at && end.bytes > 0);
    let ends = ends.filter_map(|(_, _, end)| Some((end.moved_ns?, end.bytes)));
    let files = view.document.streams.iter().filter(|stream| stream.process == at && stream.writes);
    let writes = ends.chain(files.map(|stream| (stream.moved_ns, stream.bytes)));
    // What it writes when the recording ends is about that.
    let before = |([first, _], _): &([u64; 2], u64)| !view.document.ended_by_interruption(*first);
    let writes: Vec<([u64; 2], u64)> = writes.filter(before).collect();
    let Some(wrote) = writes.iter().map(|([first, _], _)| *first).min() else {
        return nothing_yet(view, at, process, input);
    };
    let bytes: u64 = writes.iter().map(|(_, bytes)| bytes).sum();
    // It did not come to the end of its input.
    if input.errors > 0 && input.at_end == 0 {
        return None;
    }
    let [first, last] = input.moved_ns?;
    let reads = input.all_calls() - input.at_end;
    // Who gets less than it asked for, and reads on, may fill a block; who wants all of it gets the end only once.
    let blocks = reads > 1 && input.at_end > 1 && input.short >= reads && input.requested / input.all_calls() >= BLOCK;
    // A script that reads from what it has started mostly wants all of it.
    let steps = reads >= READS && (at_once(process).is_none() || process.input == Some(channel));
    let over = last.saturating_sub(first);
    let waited = input.blocked_ns + process.waits.get(&WaitReason::Poll).map_or(0, |wait| wait.ns);
    let came_slowly = (steps || blocks) && over >= LONG_NS && waited as f64 >= WAITED * over as f64;
    let is_late =
        wrote.saturating_sub(first) as f64 >= LATE * over as f64 && bytes as f64 >= AS_MUCH * input.bytes as f64;
    if !came_slowly || !is_late {
        return None;
    }
    let why = holds(view, at, channel).unwrap_or_else(|| match at_once(process) {
        Some(switch) => format!(
            "it buffers its output ({switch} writes at once), or waits for whole blocks of input (`read(n)`, unlike `readline`)"
        ),
        None => "it waits until a block of its input is full (`fread`), or buffers its output, and has to read and to flush each line".to_owned(),
    });
    let text = format!(
        "{} read {} times from {} on and wrote only at its end, {} from {} on. Unless it needs all of its input first, {why}.",
        view.name(at),
        grouped(reads),
        after(first),
        counted(bytes, "byte"),
        after(wrote)
    );
    Some(Finding { at_ns: Some(wrote), ..Finding::new(FindingKind::Late, [at], text) })
}

/// A program may open /dev/null, or end its child.
const ASIDE: u64 = 2;

/// The same of one that had done nothing that others notice when the recording ended: `` `mon.py` read 20 times ... ``
fn nothing_yet(view: &FindingView<'_>, at: usize, process: &RecordedProcess, input: &RecordedEnd) -> Option<Finding> {
    let [first, last] = input.moved_ns?;
    let reads = input.all_calls() - input.at_end;
    let over = last.saturating_sub(first);
    // Each gave less than was asked for, and it asked again. A message about the end of the recording is nothing.
    let is_short =
        reads >= READS && over >= LONG_NS && input.short + 1 >= reads && input.requested / reads.max(1) >= BLOCK;
    let goes_on = view.document.is_cut_off()
        && view.goes_on(process)
        && process.effects <= process.errors + ASIDE
        && input.at_end == 0;
    let waits = input.blocked_ns as f64 >= WAITED * over as f64;
    let text = format!(
        "{} read {} times from {} on, each time less than it asked for ({} in all), and did nothing that others notice: unless it needs all of \
         its input first, it waits until its block is full (`read(n)`, `fread`), or keeps what it has to write in a buffer. `readline`, `read1`, \
         `os.read` or a flush for each line go on at once.",
        view.name(at),
        grouped(reads),
        after(first),
        counted(input.bytes, "byte"),
    );
    let finding = Finding::new(FindingKind::Late, [at], text);
    (is_short && goes_on && waits).then_some(Finding { at_ns: Some(first), ..finding })
}

/// What shows what it has started, and what has it do so at once.
const SHOWS: [(&str, &str); 7] = [
    ("ninja", "`pool = console` in its rule (`USES_TERMINAL` of CMake)"),
    ("ctest", "`ctest --verbose`"),
    ("cargo", "`cargo test -- --nocapture`"),
    ("pytest", "`pytest -s`"),
    ("go", "`go test -v`"),
    ("parallel", "`parallel --line-buffer`"),
    ("bazel", "`--test_output=streamed`"),
];

/// `` it keeps the output of `sh` until that has ended: ... ``, said of who reads only what it has started itself.
fn holds(view: &FindingView<'_>, at: usize, channel: usize) -> Option<String> {
    let all = &view.document.recorded;
    let writers = &view.document.channels.get(channel)?.writers;
    let started = |end: &RecordedEnd| end.process != at && view.with_starters(end.process).skip(1).any(|of| of == at);
    let is_own = !writers.is_empty() && writers.iter().all(started) && all[at].input != Some(channel);
    let program = all[at].name.as_str();
    let switch = match SHOWS.iter().find(|(name, _)| *name == program) {
        Some((_, switch)) => format!("with {switch}, each line comes as it is written"),
        None => "it has to pass on each line as it comes".to_owned(),
    };
    is_own.then(|| format!("it keeps the output of {} until that has ended: {switch}", view.names(writers)))
}

/// What has a process write at once, as a sentence; `None` if it does so, or can only write at its end.
fn remedy(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<(String, &'static str)> {
    let (switch, what) = switch(process)?;
    // That has the C library's stdio write each line.
    let by_stdbuf = view.before(at).and_then(|of| view.document.recorded.get(of)).is_some_and(|of| of.name == "stdbuf");
    let sentence = if by_stdbuf {
        "`stdbuf` has started it, and has no effect on it, as it does not use the buffers of the C library: another program of that name, or an \
         option of its own, has to"
            .to_owned()
    } else {
        format!("{switch} writes at once")
    };
    Some((sentence, what))
}

/// The switch for that. Without its words, both is unknown.
fn switch(process: &RecordedProcess) -> Option<(String, &'static str)> {
    let (name, words) = (process.name.as_str(), &process.args);
    if WITH_STDBUF.contains(&name) {
        return (!words.iter().any(|word| word == "stdbuf")).then(|| (format!("`stdbuf -oL {name}`"), OUTPUT));
    }
    let known = BUFFERING.iter().find(|known| known.names.contains(&name))?;
    let excludes = |word: &String| {
        let option = word.strip_prefix('-').filter(|option| !option.starts_with('-'));
        option.is_some_and(|option| option.contains(|letter| known.letters.contains(letter)))
            || known.parts.iter().any(|part| word.contains(part))
    };
    (!words.iter().any(excludes)).then(|| (known.switch.replace("{}", name), known.what))
}

/// The switch that turns off the buffer of a script's output; `None` if it is off, or the process is no script.
pub(crate) fn at_once(process: &RecordedProcess) -> Option<&'static str> {
    // What keeps the output of what it has started does so on purpose.
    if SHOWS.iter().any(|(name, _)| *name == process.program()) {
        return None;
    }
    let (_, word, switch) = language(process)?;
    (!process.args.iter().any(|arg| arg.contains(word))).then_some(switch)
}

/// That of a script.
fn language(process: &RecordedProcess) -> Option<(&'static str, &'static str, &'static str)> {
    let program = process.args.first()?.rsplit('/').next()?;
    LANGUAGES.into_iter().find(|(name, ..)| program.starts_with(name))
}

/// Whether what the process executes is a script, or not known.
pub(crate) fn is_script(process: &RecordedProcess) -> bool {
    process.args.is_empty() || language(process).is_some()
}

/// A script that slept many times, for a time, the network or a child, and wrote all at its end; another program only if it has
/// one thread, slept on a timer, and wrote once.
fn printed(view: &FindingView<'_>, at: usize, end: &RecordedEnd, process: &RecordedProcess) -> Option<String> {
    let lived = process.end_ns.min(view.document.processes.window_ns).saturating_sub(process.begin_ns);
    if lived < LONG_NS || process.pids.len() != 1 {
        return None;
    }
    // A server has connections of which it writes to each at its time.
    if process.execs > 0 && process.output.is_some_and(|output| output != at)
        || view.writers().any(|(other, _, of)| other != at && of.process == end.process && of.bytes > 0)
    {
        return None;
    }
    let switch = at_once(process);
    let timer = process.waits.get(&WaitReason::Timer).map_or(0, |wait| wait.count);
    let prints = process.threads == 1 && process.forks == 0 && end.all_calls() == 1 && timer >= STEPS;
    if switch.is_none() && (is_script(process) || process.is_shell() || !prints) {
        return None;
    }
    let slept = |reason: &WaitReason| {
        matches!(
            reason,
            WaitReason::Timer | WaitReason::Network | WaitReason::Connect | WaitReason::Poll | WaitReason::Child
        )
    };
    let waits = || process.waits.iter().filter(|(reason, _)| slept(reason)).map(|(_, wait)| wait);
    let (steps, ns) = (waits().map(|wait| wait.count).sum::<u64>(), waits().map(|wait| wait.ns).sum::<u64>());
    let [wrote, _] = end.moved_ns?;
    let is_late = wrote.saturating_sub(process.begin_ns) as f64 >= LATE * lived as f64;
    let slept_ns = process.waits.get(&WaitReason::Timer).map_or(0, |wait| wait.ns);
    let sleeps_once =
        switch.is_some() && steps < STEPS && end.all_calls() == 1 && slept_ns as f64 >= WAITED * lived as f64;
    // It may have printed a line at each step.
    let is_enough = (steps >= STEPS && end.bytes >= 2 * steps || sleeps_once) && ns as f64 >= WAITED * lived as f64;
    let what = match switch {
        Some(switch) if sleeps_once => format!(": if it printed some of that before it slept, it was in its buffer. {switch} writes at once."),
        Some(switch) => format!(": what it had printed before was in its buffer. {switch} writes at once."),
        None => ". If it had something to print before, that was in its buffer, as programs have one for a pipe: `stdbuf -oL` \
                 before the command, or `fflush` after each line, writes at once."
            .to_owned(),
    };
    (is_late && is_enough).then(|| {
        format!(
            "{} slept {} and wrote only at its end, {} from {} on{what}",
            view.name(end.process),
            if steps == 1 { "once".to_owned() } else { format!("{} times", grouped(steps)) },
            counted(end.bytes, "byte"),
            after(wrote)
        )
    })
}

/// A script that slept many times and had written nothing to its standard output when it was ended, or when it was last looked.
fn silent(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<Finding> {
    let switch = at_once(process)?;
    let channel = process.output?;
    let pipe = view.document.channels.get(channel).filter(|pipe| pipe.kind.is_pipe())?;
    let wrote = view.writers().any(|(_, _, end)| end.process == at && end.bytes > 0);
    let window = view.document.processes.window_ns;
    let lived = process.end_ns.min(window).saturating_sub(process.begin_ns);
    let steps = process.waits.get(&WaitReason::Timer).filter(|wait| wait.ns as f64 >= WAITED * lived as f64)?.count;
    let is_ended = by_others(process);
    let goes_on = view.document.is_excerpt() && process.signal.is_none() && process.end_ns >= window;
    if wrote || process.pids.len() != 1 || lived < LONG_NS || steps < STEPS || !(is_ended || goes_on) {
        return None;
    }
    let then = if is_ended { ", and is lost when a signal ends it" } else { "" };
    let text = format!(
        "{} slept {} times and wrote nothing to {}: what it printed meanwhile is in its buffer{then}. {switch} writes at once.",
        view.name(at),
        grouped(steps),
        view.pipe_to(pipe)
    );
    Some(Finding { channels: vec![channel], ..Finding::new(FindingKind::Late, [at], text) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::{Document, WaitTotal};

    /// `grep` reads in all of the window and writes in the last 2 %.
    fn late(recording: &mut Document, line: &str) {
        recording.recorded[1].args = line.split_whitespace().map(str::to_owned).collect();
        let end = &mut recording.channels[0].readers[0];
        (end.blocked_ns, end.moved_ns) = (WINDOW / 10 * 9, Some([0, WINDOW / 50 * 49]));
        let end = &mut recording.channels[1].writers[0];
        (end.bytes, end.moved_ns) = (135, Some([WINDOW / 50 * 49, WINDOW]));
    }

    #[test]
    fn who_reads_in_short_reads_and_does_nothing_is_said() {
        let reads = |change: &dyn Fn(&mut crate::result::Document)| {
            said(find, &|recording| {
                recording.interrupted_ns = Some(WINDOW);
                let process = &mut recording.recorded[1];
                (process.name, process.args) = ("mon".to_owned(), vec!["mon".to_owned()]);
                process.end_ns = WINDOW;
                recording.channels.truncate(1);
                let end = &mut recording.channels[0].readers[0];
                (end.calls, end.short, end.requested) = ([("read".to_owned(), 20)].into(), 20, 20 * 4096);
                (end.bytes, end.blocked_ns) = (580, WINDOW);
                change(recording);
            })
        };
        let text = "`mon` read 20 times from 0 s on, each time less than it asked for (580 bytes in all), and did nothing that others notice: unless \
                    it needs all of its input first, it waits until its block is full";
        assert!(reads(&|_| {}).concat().starts_with(text), "{:?}", reads(&|_| {}));
        for change in [
            (&|recording: &mut crate::result::Document| recording.recorded[1].effects = 20)
                as &dyn Fn(&mut crate::result::Document),
            &|recording| recording.interrupted_ns = None,
            &|recording| recording.channels[0].readers[0].short = 3,
        ] {
            assert!(reads(change).is_empty());
        }
    }

    #[test]
    fn a_program_that_buffers_is_said_with_its_switch() {
        let text = "`grep` read 20 times from 0 s on and wrote only at its end, 135 bytes from 3.92 s on: it buffers its \
                    output. `grep --line-buffered` writes at once.";
        assert_eq!(said(find, &|recording| late(recording, "grep -v 7")), [text]);
        let other = said(find, &|recording| {
            late(recording, "tr a b");
            recording.recorded[1].name = "tr".to_owned();
        });
        assert!(other[0].ends_with("`stdbuf -oL tr` writes at once."), "{other:?}");
        let open = said(find, &|recording| {
            late(recording, "grep -v 7");
            recording.channels[1].writers[0].moved_ns = None;
            recording.duration_ns = Some(WINDOW);
        });
        assert!(open[0].contains("and wrote nothing: what it has to write may be in its buffer."), "{open:?}");
        let waits = |first: u64, duration_ns: Option<u64>| {
            said(find, &|recording| {
                late(recording, "grep -v 7");
                let end = &mut recording.channels[0].readers[0];
                (end.calls, end.moved_ns) = ([("read".to_owned(), 1)].into(), Some([first, first]));
                recording.channels[1].writers[0].moved_ns = None;
                recording.duration_ns = duration_ns;
            })
        };
        assert!(waits(WINDOW / 2, Some(WINDOW))[0].starts_with("`grep` read once from 2.00 s on and wrote nothing:"));
        assert!(waits(WINDOW / 2, None).is_empty() && waits(WINDOW - 9, Some(WINDOW)).is_empty());
    }

    #[test]
    fn a_program_that_is_not_known_may_need_all_of_its_input() {
        let unknown = |name: &str, bytes: u64| {
            said(find, &|recording| {
                late(recording, "x --follow");
                recording.recorded[1].name = name.to_owned();
                recording.channels[1].writers[0].bytes = bytes;
            })
        };
        let text = "`x` read 20 times from 0 s on and wrote only at its end, 900 bytes from 3.92 s on. Unless it needs all of its input \
                    first, it waits until a block of its input is full (`fread`), or buffers its output, and has to read and to flush each line.";
        assert_eq!(unknown("x", 900), [text]);
        let script = |reads: u64, requested: u64| {
            said(find, &|recording| {
                late(recording, "python3 a.py");
                (recording.recorded[1].name, recording.recorded[1].input) = ("python3".to_owned(), Some(0));
                let end = &mut recording.channels[0].readers[0];
                (end.calls, end.short, end.at_end) = ([("read".to_owned(), reads + 2)].into(), reads, 2);
                end.requested = requested;
                recording.channels[1].writers[0].bytes = 900;
            })
        };
        assert!(
            script(2, 8000)[0].contains("waits for whole blocks of input")
                && script(20, 20)[0].contains("`python3 -u`, or")
        );
        assert!(script(2, 40).is_empty(), "it asks for few");
        assert!(unknown("x", 100).is_empty() && unknown("sort", 900).is_empty() && unknown("bash", 900).is_empty());
    }

    #[test]
    fn a_script_that_wrote_nothing_until_a_signal_ended_it_is_said() {
        let ended = |line: &str, signal: Option<u32>| {
            said(find, &|recording| {
                let script = &mut recording.recorded[0];
                script.args = line.split_whitespace().map(str::to_owned).collect();
                (script.signal, script.output) = (signal, Some(0));
                script.waits = [(WaitReason::Timer, WaitTotal { ns: WINDOW / 10 * 9, count: 9 })].into();
                recording.channels[0].writers[0].bytes = 0;
            })
        };
        let text = "`seq a.py` slept 9 times and wrote nothing to the pipe to `grep`: what it printed meanwhile is in its buffer, and is \
                    lost when a signal ends it. `python3 -u`, or PYTHONUNBUFFERED=1, writes at once.";
        assert_eq!(ended("python3 a.py", Some(15)), [text]);
        assert!(ended("python3 -u a.py", Some(15)).is_empty() && ended("python3 a.py", None).is_empty());
    }

    #[test]
    fn what_can_only_write_at_its_end_or_came_at_once_is_not() {
        let of = |line: &str| said(find, &|recording| late(recording, line));
        assert!(of("grep -c 7").is_empty());
        assert!(of("grep --line-buffered 7").is_empty());
        let silent: [&dyn Fn(&mut Document); 7] = [
            &|recording| recording.recorded[1].name = "sort".to_owned(),
            &|recording| recording.recorded[1].name = "python3".to_owned(),
            // All of the input was there at once.
            &|recording| recording.channels[0].readers[0].moved_ns = Some([0, 1000]),
            &|recording| recording.channels[0].readers[0].blocked_ns = 0,
            &|recording| recording.channels[1].writers[0].moved_ns = Some([1000, WINDOW]),
            &|recording| recording.channels[1].writers[0].moved_ns = None,
            &|recording| recording.recorded[1].pids = vec![1, 2],
        ];
        for change in silent {
            let found = said(find, &|recording| {
                late(recording, "grep -v 7");
                change(recording);
            });
            assert!(found.is_empty(), "{found:?}");
        }
        // Without its words: it may have counted.
        let counted = said(find, &|recording| {
            late(recording, "");
            recording.channels[1].writers[0].bytes = 3;
        });
        assert!(counted.is_empty(), "{counted:?}");
    }

    #[test]
    fn a_script_that_prints_step_by_step_is_said_with_its_switch() {
        let steps = |recording: &mut Document, line: &str, count: u64, bytes: u64| {
            let process = &mut recording.recorded[0];
            process.args = line.split_whitespace().map(str::to_owned).collect();
            process.waits = [(WaitReason::Timer, WaitTotal { ns: WINDOW / 10 * 9, count })].into();
            let end = &mut recording.channels[0].writers[0];
            (end.bytes, end.moved_ns) = (bytes, Some([WINDOW / 50 * 49, WINDOW]));
        };
        let text = "`seq log.py` slept 40 times and wrote only at its end, 400 bytes from 3.92 s on: what it had printed before was in \
                    its buffer. `python3 -u`, or PYTHONUNBUFFERED=1, writes at once.";
        assert_eq!(said(find, &|recording| steps(recording, "/usr/bin/python3 log.py", 40, 400)), [text]);
        for (line, count, bytes) in [
            ("python3 -u log.py", 40, 400),
            ("sh log.sh", 40, 400),
            ("python3 log.py", 2, 400),
            ("python3 log.py", 40, 5),
        ] {
            assert!(said(find, &|recording| steps(recording, line, count, bytes)).is_empty(), "{line}");
        }
        let once = |line: &str| {
            said(find, &|recording| {
                steps(recording, line, 1, 27);
                recording.channels[0].writers[0].calls = [("write".to_owned(), 1)].into();
            })
        };
        let text = "`seq log.py` slept once and wrote only at its end, 27 bytes from 3.92 s on: if it printed some of that before it slept, \
                    it was in its buffer. `python3 -u`, or PYTHONUNBUFFERED=1, writes at once.";
        assert_eq!(once("python3 log.py"), [text]);
        assert!(once("./log").is_empty());
        let program = |calls: u64, threads: u64| {
            said(find, &|recording| {
                steps(recording, "./bench", 12, 400);
                recording.recorded[0].threads = threads;
                recording.channels[0].writers[0].calls = [("write".to_owned(), calls)].into();
            })
        };
        assert!(program(1, 1)[0].contains(". If it had something to print before, that was in its buffer"));
        assert!(program(2, 1).is_empty() && program(1, 2).is_empty());
    }
}
