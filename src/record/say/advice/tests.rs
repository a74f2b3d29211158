use super::*;
use crate::result::{CriticalPath, Processes, RecordedEnd};

fn place() -> AdvicePlace {
    AdvicePlace { cpus: vec![0, 1], locale: None, programs: ["pigz", "xz"].into() }
}

/// A recording of `words`, in which these processes are the path, on a CPU for so many percent.
fn recording(words: &[&str], parts: &[(&str, u64)]) -> Document {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let part = |(at, (_, percent)): (usize, &(&str, u64))| PathPart {
        process: Some(at),
        what: PathWhat::OnCpu,
        ns: percent * 10_000_000,
        ..PathPart::default()
    };
    let text = words.join(" ");
    // A command of the line that begins with the name; zcat executes gzip.
    let args = |name: &str| {
        let text = text.replace("zcat", "gzip -cd");
        let command = text.split(['|', ';', '>']).map(str::trim).find(|command| command.starts_with(name));
        command.unwrap_or(name).split(' ').map(str::to_owned).collect()
    };
    let process = |(name, percent): &(&str, u64)| RecordedProcess {
        name: (*name).to_owned(),
        args: args(name),
        cpu_ns: percent * 10_000_000,
        ..RecordedProcess::default()
    };
    Document {
        processes: Processes { window_ns: 1_000_000_000, ..Processes::default() },
        target: MeasuredTarget::Pipeline(PipelineCommand::parse(&words).unwrap()),
        recorded: parts.iter().map(process).collect(),
        path: Some(CriticalPath { parts: parts.iter().enumerate().map(part).collect(), ..CriticalPath::default() }),
        ..Document::default()
    }
}

/// Reasons, and what is tried.
fn said(recording: &Document, place: &AdvicePlace) -> (String, Vec<String>) {
    let all = advice(recording, place);
    let why: Vec<String> = all.iter().filter_map(|advice| advice.why.clone()).collect();
    (why.join(" "), all.iter().filter_map(|advice| advice.remedy.as_ref().map(Remedy::text)).collect())
}

#[test]
fn a_dump_that_is_compressed_is_told() {
    let text = |line: &str| said(&recording(&[line], &[("pg_dump", 62)]), &place()).0;
    for line in ["pg_dump -Fc db", "pg_dump --format=directory -f d db", "pg_dump -F c db"] {
        assert!(text(line).contains("compressed by zlib at level 6, on one CPU. `-Z1`"), "{line}");
    }
    for line in ["pg_dump db", "pg_dump -Fp db", "pg_dump -Fc -Z0 db", "pg_dump -Fc --compress=1 db"] {
        assert_eq!(text(line), "", "{line}");
    }
}

#[test]
fn a_program_that_is_much_of_the_path_has_a_remedy_also_in_a_line_for_the_shell() {
    for (words, name, tried) in [
        (&["cat a | gzip -9 >b"][..], "gzip", "program:gzip=pigz"),
        (&["gzip --stdout a; true"], "gzip", "program:gzip=pigz"),
        (&["xz", "-9", "a"], "xz", "program:xz=xz -T0"),
        (&["zcat a | xz -9 >b"], "xz", "program:xz=xz -T0"),
        (&["sort a; true"], "sort", "program:sort=sort --parallel=2 -S 25%"),
        (&["pv a; true"], "pv", "program:pv=pv -B 1M"),
    ] {
        let (why, remedies) = said(&recording(words, &[(name, 62)]), &place());
        assert_eq!(remedies, [tried], "{why}");
        assert!(why.contains(&format!("`{name}`")) && why.contains("62 %"), "{why}");
        assert_eq!(said(&recording(words, &[(name, 10)]), &place()), Default::default(), "little of the path");
    }
    // One CPU, threads already, unpacking, or not installed.
    let one = AdvicePlace { cpus: vec![0], ..place() };
    assert_eq!(said(&recording(&["gzip a; true"], &[("gzip", 62)]), &one), Default::default());
    let lines = ["xz -T2 a; true", "xz -dc a; true", "gzip -l a; true"];
    let sorts = ["sort --parallel=4 a; true", "sort --buffer-size=1G a; true", "sort -nS2M a; true", "sort -m a; true"];
    for line in lines.into_iter().chain(sorts).chain(["pv -B 2M a; true"]) {
        let name = line.split(' ').next().unwrap();
        assert_eq!(said(&recording(&[line], &[(name, 62)]), &place()), Default::default(), "{line}");
    }
    for line in ["gzip -c --decompress a; true", "zcat a; true", "zstd -dc a; true"] {
        let name = line.split(' ').next().unwrap().replace("zcat", "gzip");
        let (why, tried) = said(&recording(&[line], &[(&name, 62)]), &place());
        assert_eq!(why, format!("`{name}` unpacks with one thread, 62 % of the time: no option of it changes that."));
        assert!(tried.is_empty(), "{tried:?}");
    }
    let (why, tried) = said(&recording(&["bzip2 a; true"], &[("bzip2", 62)]), &place());
    assert!(why.contains("`lbzip2`, which is not installed,") && tried.is_empty(), "{why}");
}

#[test]
fn a_locale_and_a_quota_are_said() {
    let german = AdvicePlace { cpus: vec![0], locale: Some("de_DE.UTF-8".to_owned()), ..place() };
    let (why, tried) = said(&recording(&["sort a; true"], &[("sort", 62)]), &german);
    assert!(why.contains("of the locale de_DE.UTF-8, 62 % of the time"), "{why}");
    assert_eq!(tried, ["program:sort=env LC_ALL=C sort"]);
    assert_eq!(said(&recording(&["LC_ALL=C sort a"], &[("sort", 62)]), &german), Default::default());
    let mut limited = recording(&["gzip -d a; true"], &[("gzip", 62)]);
    limited.path.as_mut().unwrap().parts[0].what = PathWhat::Throttled;
    let (why, tried) = said(&limited, &place());
    assert!(why.starts_with("A larger CPU quota would save up to 62 % of the time") && tried.is_empty(), "{why}");
}

#[test]
fn small_calls_have_their_cause() {
    let with = |words: &[&str], name: &str, writes: bool| {
        let mut recording = recording(words, &[(name, 10)]);
        let calls = [("write".to_owned(), 4000)].into();
        let printed = if name == "to a socket" { 0 } else { 4000 };
        let ends = vec![RecordedEnd { calls, bytes: 8000, printed, ..RecordedEnd::default() }];
        let (writers, readers) = if writes { (ends, Vec::new()) } else { (Vec::new(), ends) };
        recording.channels.push(RecordedChannel { writers, readers, ..RecordedChannel::default() });
        said(&recording, &AdvicePlace { cpus: vec![0], ..place() })
    };
    let (why, tried) = with(&["stdbuf -oL sed p a | cat"], "sed", true);
    assert_eq!(why, "`sed` writes only 2 bytes per call: `stdbuf -oL` has it write each line at once.");
    assert_eq!(tried, ["program:stdbuf -oL="]);
    let (why, tried) = with(&["stdbuf -oL sed p a | awk 1 | cat"], "awk", true);
    assert!(why.ends_with("as stdio of the C library would.") && tried.is_empty(), "{why}");
    let (why, tried) = with(&["python3", "-u", "a.py", "|", "cat"], "python3", true);
    assert!(why.ends_with("`-u` turns off Python's buffer of standard output."), "{why}");
    assert_eq!(tried, ["program:python3 -u=python3"]);
    let (why, tried) = with(&["while true; do echo; done | cat"], "sh", true);
    assert!(why.ends_with("`echo` and `printf` of a shell write at once.") && tried.is_empty(), "{why}");
    let (why, _) = with(&["cat a | while read x; do true; done"], "sh", false);
    assert!(why.contains("`sh` reads only 2 bytes per call: a shell reads a pipe byte by byte"), "{why}");
    let (why, _) = with(&["a | b"], "to a socket", true);
    assert_eq!(
        why,
        "`to a socket` writes only 2 bytes per call: a buffer that is flushed when a line, a screen or a message is complete writes \
         more at once."
    );
    let (why, _) = with(&["dd bs=2 | cat"], "dd", true);
    assert!(why.ends_with(": its block size, `bs=`."), "{why}");
    // What was running already cannot be started otherwise, but what would help is said.
    let mut watched = recording(&["a; sort b"], &[("sort", 62)]);
    watched.target = MeasuredTarget::Attached { pids: vec![1], group: None };
    let (why, tried) = said(&watched, &place());
    assert!(why.starts_with("`sort` sorts 62 % of the time") && tried.is_empty(), "{why}");
}

#[test]
fn who_waits_for_a_cpu_needs_no_more_threads() {
    let mut waiting = recording(&["gzip a"], &[("gzip", 30), ("gzip", 60)]);
    assert!(said(&waiting, &place()).0.contains("packs with one thread, 30 % of the time"));
    let parts = &mut waiting.path.as_mut().unwrap().parts;
    (parts[1].process, parts[1].what) = (Some(0), PathWhat::ForCpu);
    assert_eq!(said(&waiting, &place()), Default::default());
}

#[test]
fn many_children_sleeps_at_pipes_and_several_stages_are_tried() {
    let mut children = recording(&["seq 100 | xargs -n1 echo"], &[("xargs", 10), ("echo", 60)]);
    children.recorded[0].pids = (0..101).collect();
    children.recorded[1].pids = (0..100).collect();
    let (why, tried) = said(&children, &place());
    assert!(why.starts_with("`xargs -n1` starts a process for each argument: 100 processes of `echo`."), "{why}");
    assert_eq!(tried, ["program:xargs -n1=xargs -n 100"]);
    let mut stages = recording(&["a", "|", "b"], &[("a", 62)]);
    assert_eq!(said(&stages, &place()), (String::new(), vec!["pin".to_owned()]));
    let end = RecordedEnd { sleeps: 1000, ..RecordedEnd::default() };
    stages.channels.push(RecordedChannel { readers: vec![end], ..RecordedChannel::default() });
    let one = AdvicePlace { cpus: vec![0], ..place() };
    assert_eq!(said(&stages, &one), (String::new(), vec!["pipe-size=1M".to_owned()]));
    // The pipes of a shell are its own.
    stages.target = MeasuredTarget::Pipeline(PipelineCommand::parse(&["a | b".to_owned()]).unwrap());
    assert_eq!(said(&stages, &place()), Default::default());
}

#[test]
fn a_file_that_is_only_copied_is_told() {
    let text = |line: &str, readers: usize| {
        let mut of = recording(&[line], &[("cat", 44), ("b", 20)]);
        of.recorded[0].output = Some(0);
        let readers = (0..readers).map(|_| RecordedEnd { process: 1, ..RecordedEnd::default() }).collect();
        of.channels.push(RecordedChannel { readers, ..RecordedChannel::default() });
        said(&of, &place()).0
    };
    let why = "`cat` only copies `dump.sql` into a pipe, 44 % of the time: `< dump.sql` behind the next program has that read the file itself.";
    assert!(text("cat dump.sql | b", 1).contains(why), "{}", text("cat dump.sql | b", 1));
    for line in ["cat a b | b", "cat -n | b", "cat | b"] {
        assert!(!text(line, 1).contains("only copies"), "{line}");
    }
    assert!(!text("cat dump.sql | b", 2).contains("only copies"));
}
