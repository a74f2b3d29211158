//! What would help, from the critical path: each rule is a row of [`RULES`], with its evidence and what can be tried.

use crate::record::model::labels::labels;
use crate::record::say::first_of::first_of;
use crate::record::say::programs::{Does, does};
use crate::record::say::words;
use crate::record::start::command_line::operands;
use crate::record::trials::locale;
use crate::record::trials::remedy::ApplyRemedy as _;
use crate::report::number::percent;
use crate::result::{
    Document, ExecutedOn, Finding, FindingKind, MeasuredTarget, PathPart, PathWhat, PipelineCommand, RecordedChannel,
    RecordedProcess, SHELLS,
};
use crate::result::{Remedy, words_of};
use crate::util::find_program::find_program;
use crate::util::text::{clean, counted};
use crate::workload::cpus;
use std::collections::BTreeSet;

/// Smaller parts of the path are no evidence.
const MUCH: f64 = 0.2;
const SOME: f64 = 0.05;

/// Sleeps at pipes per second from which a larger pipe is tried, and its size.
const MANY_SLEEPS: f64 = 100.0;
const LARGER_PIPE: u64 = 1 << 20;

/// Calls of so many bytes in the mean are small, from this number of calls on.
const SMALL_BYTES: u64 = 1024;
const MANY_CALLS: u64 = 1000;

/// Fewer in each second take no time that matters: a call with a wake-up takes some microseconds.
const EACH_SECOND: f64 = 1000.0;

/// Who waits for this part of the window at the other end is not slow because its calls are small.
const WAITS: f64 = 0.5;

/// Children of `xargs` from which more arguments for each are tried, and so many.
const MANY_CHILDREN: usize = 20;
const MORE_ARGUMENTS: &str = "100";

/// More CPUs of a guest change no rule.
const MOST_CPUS: usize = 64;

/// Programs that look up characters of the locale, and are faster without.
const LOCALE_USERS: [&str; 9] = ["sort", "uniq", "comm", "join", "grep", "sed", "gawk", "awk", "tr"];

/// Shorter work, ns, is one block or one buffer, which no other thread takes a part of: `sort` uses one thread for 128 Ki lines
/// (`SUBTHREAD_LINES_HEURISTIC` of coreutils), and a block of `bzip2 -9` has 900 kB.
const LONG_WORK_NS: u64 = 300_000_000;

/// Compressors with one thread, and what packs the same with all CPUs.
const COMPRESSORS: [(&str, &str); 5] =
    [("gzip", "pigz"), ("bzip2", "lbzip2"), ("xz", "xz -T0"), ("zstd", "zstd -T0"), ("lzma", "xz -T0 --format=lzma")];

/// Those of which no option unpacks with several threads.
const SERIAL: [&str; 2] = ["gzip", "zstd"];

/// What packs with several threads, but unpacks with one, which other threads only read, write and check for: pigz(1), `-p`.
const PARALLEL: [&str; 2] = ["pigz", "unpigz"];

/// What has a program write each line at once, and what is left without.
const FLUSHED: [(&str, &str, &str); 9] = [
    ("stdbuf -oL", "", "`stdbuf -oL` has it write each line at once"),
    ("stdbuf -o0", "", "`stdbuf -o0` turns off the buffer of its standard output"),
    ("python3 -u", "python3", "`-u` turns off Python's buffer of standard output"),
    ("python -u", "python", "`-u` turns off Python's buffer of standard output"),
    ("sed -u", "sed", "`-u` has it write each line at once"),
    ("sed --unbuffered", "sed", "`--unbuffered` has it write each line at once"),
    ("grep --line-buffered", "grep", "`--line-buffered` has it write each line at once"),
    ("jq --unbuffered", "jq", "`--unbuffered` has it write each value at once"),
    ("mawk -W interactive", "mawk", "`-W interactive` has it write each line at once"),
];

/// What would help, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Advice {
    /// A sentence; absent if the evidence does not say that it helps, but it is worth a try.
    pub why: Option<String>,
    /// What `--advise` tries.
    pub remedy: Option<Remedy>,
    /// The process whose calls are small, if it is about these.
    small_calls: Option<usize>,
}

impl Advice {
    fn new(why: String, remedy: Option<Remedy>) -> Self {
        Self { why: Some(why), remedy, small_calls: None }
    }
}

/// Where the pipeline ran.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AdvicePlace {
    /// CPUs that it may use.
    pub cpus: Vec<u32>,
    /// The locale of characters and their order, if that is not the C locale.
    pub(crate) locale: Option<String>,
    /// Programs of [`COMPRESSORS`] that exist.
    pub programs: BTreeSet<&'static str>,
}

impl AdvicePlace {
    /// Here.
    pub(crate) fn here(cpus: Vec<u32>) -> Self {
        let words = COMPRESSORS.iter().filter_map(|(_, other)| other.split(' ').next());
        Self { cpus, locale: locale::own(), programs: words.filter(|name| find_program(name).is_some()).collect() }
    }
}

/// What a rule sees.
struct AdviceEvidence<'a> {
    recording: &'a Document,
    pipeline: &'a PipelineCommand,
    place: &'a AdvicePlace,
    labels: Vec<String>,
}

/// A rule: what it looks at, and whether it has to know the words of the commands. If it finds nothing, it says nothing.
struct Rule {
    find: fn(&AdviceEvidence<'_>) -> Vec<Advice>,
    needs_words: bool,
}

/// All rules, in the order in which they are printed and tried.
const RULES: [Rule; 11] = [
    Rule { find: quota, needs_words: false },
    Rule { find: compressors, needs_words: false },
    Rule { find: dumps, needs_words: false },
    Rule { find: sorting, needs_words: false },
    Rule { find: in_locale, needs_words: true },
    Rule { find: flushed, needs_words: false },
    Rule { find: many_children, needs_words: true },
    Rule { find: small_transfers, needs_words: true },
    Rule { find: larger_pipes, needs_words: true },
    Rule { find: pinned, needs_words: true },
    Rule { find: copied, needs_words: false },
];

/// The reasons of [`advice`] where it ran: here, or in a guest.
pub(crate) fn reasons(recording: &Document) -> Vec<Finding> {
    let place = match recording.executed_on {
        ExecutedOn::Hardware => AdvicePlace::here(cpus::allowed().unwrap_or_default()),
        _ => AdvicePlace {
            cpus: (0..recording.environment.cpus).take(MOST_CPUS).collect(),
            locale: None,
            ..AdvicePlace::here(Vec::new())
        },
    };
    let limits = words::longest(recording)
        .filter(|at| recording.recorded[*at].cpu_ns as f64 >= MUCH * recording.processes.window_ns as f64);
    let reason = |advice: Advice| {
        // Small calls of who limits the pipeline are why.
        let kind = match advice.small_calls {
            Some(process) if limits == Some(process) => FindingKind::SmallCalls,
            _ => FindingKind::Advice,
        };
        Some(Finding::new(kind, advice.small_calls, advice.why?))
    };
    first_of(advice(recording, &place).into_iter().filter_map(reason))
}

/// What the rules say about `recording`. What cannot be applied to its pipeline is not among the remedies.
pub(crate) fn advice(recording: &Document, place: &AdvicePlace) -> Vec<Advice> {
    let pipeline = &PipelineCommand {
        stages: recording.target.stages().to_vec(),
        shell: matches!(&recording.target, MeasuredTarget::Pipeline(line) if line.shell),
    };
    let evidence = AdviceEvidence { recording, pipeline, place, labels: labels(recording) };
    let rules = RULES.iter().filter(|rule| !rule.needs_words || !pipeline.stages.is_empty());
    let mut all: Vec<Advice> = rules.flat_map(|rule| (rule.find)(&evidence)).collect();
    let mut known = Vec::new();
    for advice in &mut all {
        let new = advice.remedy.take_if(|remedy| remedy.changed(pipeline).is_err() || known.contains(remedy)).is_none();
        known.extend(advice.remedy.clone().filter(|_| new));
    }
    all.retain(|advice| advice.why.is_some() || advice.remedy.is_some());
    all
}

impl AdviceEvidence<'_> {
    /// Part of the time in parts of the path like this, 0 to 1.
    fn share(&self, is: impl Fn(&PathPart) -> bool) -> f64 {
        let parts = self.recording.path.iter().flat_map(|path| &path.parts);
        let ns: u64 = parts.filter(|part| is(part)).map(|part| part.ns).sum();
        ns as f64 / self.recording.processes.window_ns.max(1) as f64
    }

    /// Processes with their place, name in tables, and part of the path on a CPU; none of those that mostly waited for one.
    fn working(&self) -> impl Iterator<Item = (&RecordedProcess, &str, f64)> {
        self.recording.recorded.iter().zip(&self.labels).enumerate().map(|(at, (process, label))| {
            let [works, waits] = [PathWhat::OnCpu, PathWhat::ForCpu]
                .map(|what| self.share(|part| part.process == Some(at) && part.what == what));
            (process, label.as_str(), if works < waits { 0.0 } else { works })
        })
    }

    /// The stage with a command that begins with these words.
    fn has(&self, words: &str) -> bool {
        Remedy::Program(words_of(words), vec!["x".to_owned()]).changed(self.pipeline).is_ok()
    }

    /// All words of the pipeline, also those of a line for the shell.
    fn words(&self) -> Vec<String> {
        self.pipeline.words()
    }

    /// Whether it has a word like this.
    fn word(&self, is: impl Fn(&str) -> bool) -> bool {
        self.words().iter().any(|word| is(word))
    }
}

/// `program:FROM=TO`.
fn program(from: &str, to: &str) -> Option<Remedy> {
    Some(Remedy::Program(words_of(from), words_of(to)))
}

/// A quota that is too small.
fn quota(evidence: &AdviceEvidence<'_>) -> Vec<Advice> {
    let share = evidence.share(|part| part.what == PathWhat::Throttled);
    // Threads that run at once use the quota up sooner, and all wait for the next period then.
    let throttled = (0..).zip(&evidence.recording.recorded).filter(|(_, of)| of.has_threads() && of.throttled_ns > 0);
    let threads =
        throttled.max_by_key(|(_, of)| of.throttled_ns).and_then(|(at, _): (usize, _)| evidence.labels.get(at));
    let threads = threads.map_or_else(String::new, |name| {
        format!(
            " The threads of `{name}` that run at once use it up together: no more of them than the quota has CPUs (`GOMAXPROCS`, \
             `OMP_NUM_THREADS`, `-j`) wait less."
        )
    });
    let why = format!(
        "A larger CPU quota would save up to {} of the time: raise `cpu.max` of the cgroup (with cgroup \
         v1 `cpu.cfs_quota_us`, `docker run --cpus`).{threads}",
        percent(share)
    );
    if share >= SOME { vec![Advice::new(why, None)] } else { Vec::new() }
}

/// Whether an option of a compressor has it unpack.
fn unpacks(option: &str) -> bool {
    is_option(option, "d", "decompress") || is_option(option, "t", "test") || option == "--uncompress"
}

/// A compressor with one thread.
fn compressors(evidence: &AdviceEvidence<'_>) -> Vec<Advice> {
    let several = evidence.place.cpus.len() > 1;
    let rule = |(process, label, share): (&RecordedProcess, &str, f64)| {
        let has = |is: &dyn Fn(&str) -> bool| options(process).any(is);
        if PARALLEL.contains(&process.name.as_str()) && share >= MUCH && (process.name == "unpigz" || has(&unpacks)) {
            let why = format!(
                "`{label}` unpacks with one thread, {} of the time, whatever `-p` says: a gzip stream can only be unpacked from its begin on. \
                 Files of `bgzip` (`bgzip -d -@ 4`) and of several zstd frames can be unpacked in parallel.",
                percent(share)
            );
            return Some(Advice::new(why, None));
        }
        let (name, other) = COMPRESSORS.iter().find(|(name, _)| *name == process.name)?;
        let is_short = process.cpu_ns < LONG_WORK_NS;
        if !several
            || is_short
            || share < MUCH
            || process.args.is_empty()
            || has(&|option| is_option(option, "T", "threads"))
        {
            return None;
        }
        let share = percent(share);
        if has(&|option| is_option(option, "l", "list")) {
            return None;
        }
        if has(&unpacks) {
            let why = format!("`{label}` unpacks with one thread, {share} of the time: no option of it changes that.");
            return SERIAL.contains(name).then(|| Advice::new(why, None));
        }
        let known = evidence.place.programs.contains(other.split(' ').next()?);
        let install = if known { "" } else { ", which is not installed," };
        let why = format!("`{label}` packs with one thread, {share} of the time: `{other}`{install} uses all CPUs.");
        Some(Advice::new(why, program(name, other).filter(|_| known)))
    };
    evidence.working().filter_map(rule).collect()
}

/// The options of a process.
fn options(process: &RecordedProcess) -> impl Iterator<Item = &str> {
    process.args.iter().skip(1).map(String::as_str).filter(|word| word.starts_with('-'))
}

/// Whether a word has this option, in its short form maybe among others.
fn is_option(word: &str, short: &str, long: &str) -> bool {
    match word.strip_prefix("--") {
        Some(word) => word.split('=').next().is_some_and(|word| !word.is_empty() && long.starts_with(word)),
        None => word.contains(short),
    }
}

/// `pg_dump` that compresses what it writes: its formats of its own do so unless they are told not to (pg_dump(1), `-Z`).
fn dumps(evidence: &AdviceEvidence<'_>) -> Vec<Advice> {
    let advice = |(process, label, share): (&RecordedProcess, &str, f64)| {
        let words: Vec<&str> = process.args.iter().map(String::as_str).collect();
        let is = |short: &str, long: &str| words.iter().any(|word| word.starts_with(short) || word.starts_with(long));
        let own = ["-Fc", "-Fd", "--format=c", "--format=d"].iter().any(|form| is(form, form));
        let pair =
            words.windows(2).any(|pair| matches!(pair, ["-F" | "--format", form] if form.starts_with(['c', 'd'])));
        let compresses = (own || pair) && !is("-Z", "--compress");
        let works = process.user_share.is_none_or(|user| user >= MUCH);
        (process.name == "pg_dump" && compresses && works && share >= MUCH).then(|| {
            let why = format!(
                "`{label}` is on a CPU for {} of the time: its own formats are compressed by zlib at level 6, on one CPU. `-Z1` takes \
                 less time, `-Z0` leaves it to another program (`| zstd -T0`), and `-Fd -j 4` uses several CPUs.",
                percent(share)
            );
            Advice::new(why, None)
        })
    };
    evidence.working().filter_map(advice).collect()
}

/// `sort`, whose threads and memory can be chosen.
fn sorting(evidence: &AdviceEvidence<'_>) -> Vec<Advice> {
    let cpus = evidence.place.cpus.len();
    let better = format!("sort --parallel={cpus} -S 25%");
    let rule = |(process, label, share): (&RecordedProcess, &str, f64)| {
        let chosen = |option: &str| {
            option.starts_with("--parallel") || is_option(option, "S", "buffer-size") || is_option(option, "m", "merge")
        };
        let why = format!(
            "`{label}` sorts {} of the time: `{better}` sorts larger parts at once, on all CPUs.",
            percent(share)
        );
        let is_plain = process.name == "sort" && !process.args.is_empty() && !options(process).any(chosen);
        let is_long = process.cpu_ns >= LONG_WORK_NS;
        (is_plain && is_long && cpus > 1 && share >= MUCH).then(|| Advice::new(why, program("sort", &better)))
    };
    evidence.working().filter_map(rule).collect()
}

/// A file that `cat` only copies into a pipe.
fn copied(evidence: &AdviceEvidence<'_>) -> Vec<Advice> {
    let rule = |(process, label, share): (&RecordedProcess, &str, f64)| {
        let [file] = operands(&process.args) else { return None };
        let channel = process.output.and_then(|at| evidence.recording.channels.get(at))?;
        let is_plain = process.program() == "cat" && !file.starts_with('-') && channel.kind.is_pipe();
        let why = format!(
            "`{label}` only copies `{file}` into a pipe, {} of the time: `< {file}` behind the next program has that read the file itself.",
            percent(share),
            file = clean(file)
        );
        (is_plain && share >= MUCH && channel.readers.len() == 1).then(|| Advice::new(why, None))
    };
    evidence.working().filter_map(rule).collect()
}

/// Programs that are faster without a locale.
fn in_locale(evidence: &AdviceEvidence<'_>) -> Vec<Advice> {
    let Some(locale) = evidence.place.locale.as_ref().filter(|_| !evidence.word(|word| word.starts_with("LC_ALL=")))
    else {
        return Vec::new();
    };
    let rule = |(process, label, share): (&RecordedProcess, &str, f64)| {
        let name = &process.name;
        let uses = LOCALE_USERS.contains(&&name[..]) && share >= MUCH;
        let why = format!(
            "`{label}` follows the rules of the locale {locale}, {} of the time: `LC_ALL=C {name}` compares bytes.",
            percent(share)
        );
        uses.then(|| Advice::new(why, program(name, &format!("env LC_ALL=C {name}"))))
    };
    evidence.working().filter_map(rule).collect()
}

/// Ends of channels with many small calls: the process, bytes per call, and whether they are to a pipe by standard output.
fn small_calls<'a>(recording: &'a Document, writes: bool) -> impl Iterator<Item = (usize, u64, bool)> {
    let ends = move |channel: &'a RecordedChannel| {
        let ends = if writes { &channel.writers } else { &channel.readers };
        ends.iter().map(|end| (channel.kind.is_pipe() && end.printed > 0, end))
    };
    recording.channels.iter().flat_map(ends).filter_map(|(is_output, end)| {
        let calls = end.all_calls() - end.eagain - end.epipe - end.errors;
        // A process that calls once has nothing to collect.
        let processes = recording.recorded.get(end.process).map_or(1, |process| process.pids.len().max(1)) as u64;
        let window = recording.processes.window_ns as f64 / 1e9;
        // What writes nothing again and again does not lack a buffer.
        let small = calls / processes >= MANY_CALLS && end.bytes / calls <= SMALL_BYTES && end.bytes >= calls / 2;
        let small = small && calls as f64 >= EACH_SECOND * window;
        // Larger calls do not help who waits for another process.
        let waits = end.blocked_ns as f64 > WAITS * recording.processes.window_ns as f64;
        (small && !waits).then(|| (end.process, (end.bytes as f64 / calls as f64).round() as u64, is_output))
    })
}

/// Small calls, and what they come from.
fn flushed(evidence: &AdviceEvidence<'_>) -> Vec<Advice> {
    let recording = evidence.recording;
    let cause = |name: &str| {
        let own = |(from, to, _): &&(&str, &str, &str)| match to.is_empty() {
            true => evidence.has(&format!("{from} {name}")),
            false => name.starts_with(to) && evidence.has(from),
        };
        match FLUSHED.iter().find(own) {
            Some((from, to, why)) => (format!(": {why}"), program(from, to)),
            None if SHELLS.contains(&name) => (": `echo` and `printf` of a shell write at once".to_owned(), None),
            None if does(name, Does::PassesOn) => {
                (": it writes what it reads, and who writes to it has to write more at once".to_owned(), None)
            }
            None if name == "dd" => (": its block size, `bs=`".to_owned(), None),
            None if name.starts_with("python") => {
                let why = ": it flushes its standard output (`flush`, `-u` or PYTHONUNBUFFERED), which Python would otherwise write in blocks";
                (why.to_owned(), None)
            }
            None if name.starts_with("node") => (
                ": one string that is written at once, or `cork` and `uncork` around several, is one call".to_owned(),
                None,
            ),
            None => (
                ": with a buffer (`BufWriter`, `bufio.Writer`), it writes in blocks, as stdio of the C library would"
                    .to_owned(),
                None,
            ),
        }
    };
    let does = |writes: bool| if writes { "writes" } else { "reads" };
    let sentence = move |(process, bytes, writes, is_output): (usize, u64, bool, bool)| {
        let (own, label) = (recording.recorded.get(process)?, &evidence.labels[process]);
        let of_script = own.is_shell() || own.program().starts_with("python");
        let name = if of_script { own.program() } else { &own.name };
        let bytes = counted(bytes, "byte");
        let (why, remedy) = match writes {
            // Of sockets and the like, how they are written is not known.
            true if is_output => cause(name),
            false if own.is_shell() => (
                ": a shell reads a pipe byte by byte (`read`, `mapfile`), so that it does not take what the next program is to read. One \
                 program such as awk, instead of the shell, reads blocks"
                    .to_owned(),
                None,
            ),
            true => (": a buffer that is flushed when a line, a screen or a message is complete writes more at once".to_owned(), None),
            false => (String::new(), None),
        };
        let why = format!("`{label}` {} only {bytes} per call{why}.", does(writes));
        Some(Advice { small_calls: Some(process), ..Advice::new(why, remedy) })
    };
    let ends = [true, false].into_iter().flat_map(|writes| {
        // What a reader gets is what was written.
        small_calls(recording, writes).map(move |(process, bytes, is_output)| (process, bytes, writes, is_output))
    });
    let mut said = BTreeSet::new();
    let new = |advice: &Advice| said.insert(advice.why.clone());
    ends.filter_map(sentence).filter(new).collect()
}

/// Many short children of `xargs`.
fn many_children(evidence: &AdviceEvidence<'_>) -> Vec<Advice> {
    let of_xargs = |from: &&&str| evidence.has(from);
    let Some(from) = ["xargs -n 1", "xargs -n1", "xargs -L 1", "xargs -L1"].iter().find(of_xargs) else {
        return Vec::new();
    };
    // Before they execute their program, they have the name of xargs.
    let is_child = |process: &&RecordedProcess| process.pids.len() >= MANY_CHILDREN && process.name != "xargs";
    let starts: Vec<_> = evidence.recording.recorded.iter().filter(is_child).collect();
    // A process that executes a second program, as `env` does, is one child.
    let children: BTreeSet<u32> = starts.iter().flat_map(|process| process.pids.iter().copied()).collect();
    let names: BTreeSet<&str> = starts.iter().map(|process| process.name.as_str()).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    let why = format!(
        "`{from}` starts a process for each argument: {} of {}. With `-n {MORE_ARGUMENTS}`, there are fewer.",
        counted(children.len() as u64, "process"),
        names.join(" and ")
    );
    vec![Advice::new(why, program(from, &format!("xargs -n {MORE_ARGUMENTS}")))]
}

/// `pv` with a larger buffer.
fn small_transfers(evidence: &AdviceEvidence<'_>) -> Vec<Advice> {
    let limited =
        evidence.word(|word| word.starts_with("-L") || word.starts_with("-B") || word.starts_with("--buffer"));
    let rule = |(process, label, share): (&RecordedProcess, &str, f64)| {
        let why = format!("`{label}` is {} of the time: `pv -B 1M` moves more with each call.", percent(share));
        (process.name == "pv" && share >= MUCH && !limited).then(|| Advice::new(why, program("pv", "pv -B 1M")))
    };
    evidence.working().filter_map(rule).collect()
}

/// Stages that often sleep at their pipes.
fn larger_pipes(evidence: &AdviceEvidence<'_>) -> Vec<Advice> {
    let sleeps: u64 = evidence.recording.channels.iter().flat_map(RecordedChannel::ends).map(|end| end.sleeps).sum();
    let many = sleeps as f64 > MANY_SLEEPS * evidence.recording.processes.window_ns as f64 / 1e9;
    let advice = Advice { why: None, remedy: Some(Remedy::PipeSize(LARGER_PIPE)), small_calls: None };
    if many { vec![advice] } else { Vec::new() }
}

/// Several stages on several CPUs.
fn pinned(evidence: &AdviceEvidence<'_>) -> Vec<Advice> {
    let several = evidence.pipeline.stages.len() > 1 && evidence.place.cpus.len() > 1;
    if several { vec![Advice { why: None, remedy: Some(Remedy::Pin), small_calls: None }] } else { Vec::new() }
}

#[cfg(test)]
mod tests;
