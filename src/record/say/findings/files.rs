//! Files that a pipeline empties while it reads them, or whose parts are overwritten.

use crate::record::say::findings::view::FindingView;
use crate::record::start::command_line::operands;
use crate::result::{Finding, FindingKind, MeasuredTarget, RecordedChannel, RecordedProcess, RecordedStream};
use crate::util::text::{clean, counted, grouped};
use std::collections::{BTreeMap, BTreeSet};

/// What all processes that share an open file wrote to it.
struct Opened<'a> {
    first: &'a RecordedStream,
    bytes: u64,
    range: [u64; 2],
    moved_ns: [u64; 2],
    /// Each call began where the one before had ended.
    goes_on: bool,
}

/// `` `sh` and `tee` write `log` at the same time, and `sh` does not append: they overwrite each other, ... ``
pub(crate) fn overwritten(view: &FindingView<'_>) -> Vec<Finding> {
    let mut files: BTreeMap<(u64, u32), BTreeMap<u64, Opened<'_>>> = BTreeMap::new();
    for stream in view.document.streams.iter().filter(|stream| stream.writes) {
        let opened = files.entry((stream.inode, stream.device)).or_default().entry(stream.opened);
        let known = opened.or_insert(Opened {
            first: stream,
            bytes: 0,
            range: stream.range,
            moved_ns: stream.moved_ns,
            goes_on: true,
        });
        known.bytes += stream.bytes;
        known.range = both(known.range, stream.range);
        known.moved_ns = both(known.moved_ns, stream.moved_ns);
        known.goes_on &= stream.appends || stream.moves == 0;
    }
    files.values().filter_map(|opened| overwritten_found(view, &opened.values().collect::<Vec<_>>())).collect()
}

fn both(one: [u64; 2], other: [u64; 2]) -> [u64; 2] {
    [one[0].min(other[0]), one[1].max(other[1])]
}

fn overlap(one: [u64; 2], other: [u64; 2]) -> bool {
    one[0] < other[1] && other[0] < one[1]
}

fn overwritten_found(view: &FindingView<'_>, opened: &[&Opened<'_>]) -> Option<Finding> {
    let pairs = opened.iter().enumerate().flat_map(|(at, one)| opened[..at].iter().map(move |other| [*one, *other]));
    let lost = |[one, other]: &[&Opened<'_>; 2]| {
        let range = both(one.range, other.range);
        (one.bytes + other.bytes).saturating_sub(range[1] - range[0])
    };
    let is_lost = |pair: &[&Opened<'_>; 2]| {
        let [one, other] = pair;
        let at_once = overlap(one.moved_ns, other.moved_ns) && overlap(one.range, other.range);
        let places = [one, other].iter().any(|opened| !opened.first.appends);
        // Another file can get the number of one that was deleted.
        let same = one.first.file == other.first.file;
        same && at_once && places && one.goes_on && other.goes_on && lost(pair) > 0
    };
    let pair = pairs.filter(is_lost).max_by_key(lost)?;
    let mut streams = pair.map(|opened| opened.first);
    streams.sort_by_key(|stream| (stream.appends, stream.moved_ns));
    let [one, other] = streams;
    let (name, second) = (view.name(one.process), view.name(other.process));
    let (who, both) = if one.process == other.process {
        (format!("{name} writes `{}` by two openings of it", clean(&one.file)), "neither".to_owned())
    } else {
        let both = if other.appends { format!("{name} does not") } else { "neither".to_owned() };
        (format!("{name} and {second} write `{}` at the same time", clean(&one.file)), both)
    };
    let appends = if both == "neither" { "neither appends" } else { "append" };
    let why = if both == "neither" { appends.to_owned() } else { format!("{both} {appends}") };
    let bytes = pair.iter().map(|opened| opened.bytes).sum::<u64>();
    let text = format!(
        "{who}, and {why}: they overwrite each other, so that {} of {} are lost. `>>` instead of `>` (O_APPEND), for all of \
         them, keeps both.",
        grouped(lost(&pair)),
        counted(bytes, "byte")
    );
    let finding = Finding::new(FindingKind::Overwritten, [one.process, other.process], text);
    Some(Finding { bytes: Some(lost(&pair)), ..finding })
}

/// Programs that read the files that their operands name, and how many operands come before the first file.
const READERS: [(&str, usize); 22] = [
    ("cat", 0),
    ("tac", 0),
    ("sort", 0),
    ("uniq", 0),
    ("head", 0),
    ("tail", 0),
    ("cut", 0),
    ("nl", 0),
    ("rev", 0),
    ("fold", 0),
    ("fmt", 0),
    ("column", 0),
    ("paste", 0),
    ("shuf", 0),
    ("zcat", 0),
    ("gzip", 0),
    ("base64", 0),
    ("grep", 1),
    ("sed", 1),
    ("awk", 1),
    ("mawk", 1),
    ("jq", 1),
];

/// `` `tee` empties `f` when it starts, while `sort` reads it for the same pipeline: ... ``
pub(crate) fn own_input(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = view.document.recorded.iter().enumerate().filter_map(|of| by_tee(view, of)).collect();
    if let MeasuredTarget::Pipeline(pipeline) = &view.document.target
        && pipeline.shell
    {
        let emptied = pipeline.stages.iter().flatten().flat_map(|line| emptied_by_shell(line));
        found.extend(emptied.map(|(program, file)| {
            let text = format!(
                "The shell empties `{file}` before `{program}` reads it in the same pipeline (`>{file}`): what was in it is \
                 lost. Another file that is renamed afterwards, or `sponge`, keeps it.",
                file = clean(&file),
                program = clean(&program)
            );
            let reader = view.document.recorded.iter().position(|process| process.name == program);
            Finding::new(FindingKind::OwnInput, reader, text)
        }));
    }
    found
}

/// A `tee` that empties what a program before it in the pipeline reads.
fn by_tee(view: &FindingView<'_>, (at, process): (usize, &RecordedProcess)) -> Option<Finding> {
    let appends =
        |word: &String| word == "--append" || !word.starts_with("--") && word.starts_with('-') && word.contains('a');
    if process.name != "tee" || operands(&process.args).iter().any(appends) {
        return None;
    }
    let files: BTreeSet<&str> = plain(operands(&process.args)).collect();
    let mut before = BTreeSet::from([at]);
    loop {
        let reads = view.readers().filter(|(_, _, end)| before.contains(&end.process));
        let more: BTreeSet<usize> = reads.flat_map(|(_, pipe, _)| writers(view, pipe, process.end_ns)).collect();
        if more.is_subset(&before) {
            break;
        }
        before.extend(more);
    }
    let (reader, file) = before.iter().filter(|other| **other != at).find_map(|other| {
        let of = &view.document.recorded[*other];
        Some((*other, inputs(&of.name, operands(&of.args)).find(|file| files.contains(file))?))
    })?;
    let text = format!(
        "{} empties `{file}` when it starts, while {} reads it for the same pipeline: what is not read by then is lost. \
         Another file that is renamed afterwards, or `sponge`, keeps it.",
        view.name(at),
        view.name(reader),
        file = clean(file)
    );
    Some(Finding::new(FindingKind::OwnInput, [at, reader], text))
}

/// Who writes a pipe. If nothing was ever written, all that could have: who wrote to no pipe, and began before `end` (ns). A
/// program whose input `tee` has emptied already has nothing to write.
fn writers<'a>(
    view: &'a FindingView<'_>,
    pipe: &'a RecordedChannel,
    end: u64,
) -> impl Iterator<Item = usize> + use<'a> {
    let silent = move |at: &usize| {
        pipe.writers.is_empty()
            && pipe.other_writers.is_empty()
            && view.document.recorded[*at].begin_ns < end
            && view.writers().all(|(_, _, end)| end.process != *at)
    };
    let silent = (0..view.document.recorded.len()).filter(silent);
    pipe.writers.iter().map(|end| end.process).chain(silent)
}

/// Words that are no options.
fn plain(words: &[String]) -> impl Iterator<Item = &str> {
    words.iter().map(String::as_str).filter(|word| !word.starts_with('-'))
}

/// The files that a program reads, with these operands.
fn inputs<'a>(program: &str, words: &'a [String]) -> impl Iterator<Item = &'a str> {
    let before = READERS.iter().find(|(name, _)| *name == program).map(|(_, before)| *before);
    before.into_iter().flat_map(|before| plain(words).skip(before))
}

/// The programs of a line whose input the shell empties for their own pipeline, each with its file. Of a line with quotes or
/// other syntax that a word can hide in, none.
fn emptied_by_shell(line: &str) -> Vec<(String, String)> {
    if line.contains(['\'', '"', '\\', '$', '`', '(', '{', '#']) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for statement in line.replace("&&", ";").replace("||", ";").split([';', '\n']) {
        // A word after `>`, which is not `>>` or `>&`.
        let spaced = statement.replace(">>", " >>").replace('>', " > ").replace(" >  > ", " >> ");
        let stages: Vec<Vec<String>> =
            spaced.split('|').map(|stage| stage.split_whitespace().map(str::to_owned).collect()).collect();
        let targets: BTreeSet<&str> = stages
            .iter()
            .flat_map(|words| words.windows(2).filter(|pair| pair[0] == ">").map(|pair| pair[1].as_str()))
            .collect();
        for words in &stages {
            let end = words.iter().position(|word| word.starts_with(['>', '<'])).unwrap_or(words.len());
            let Some((program, rest)) = words[..end].split_first() else { continue };
            let input = inputs(program, rest).find(|file| targets.contains(file));
            found.extend(input.map(|file| (program.clone(), file.to_owned())));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::Document;

    type Change = dyn Fn(&mut [RecordedStream; 2]);

    fn stream(process: usize, opened: u64, bytes: u64) -> RecordedStream {
        RecordedStream {
            process,
            opened,
            file: "log".to_owned(),
            writes: true,
            calls: 10,
            bytes,
            range: [0, bytes],
            moved_ns: [0, WINDOW],
            ..RecordedStream::default()
        }
    }

    fn two(change: &Change) -> Vec<String> {
        said(overwritten, &|recording: &mut Document| {
            let mut streams = [stream(0, 1, 100), RecordedStream { appends: true, ..stream(1, 2, 900) }];
            change(&mut streams);
            recording.streams = streams.to_vec();
        })
    }

    #[test]
    fn bytes_that_are_overwritten_are_said() {
        let text = "`seq` and `grep` write `log` at the same time, and `seq` does not append: they overwrite each other, so that 100 \
                    of 1,000 bytes are lost. `>>` instead of `>` (O_APPEND), for all of them, keeps both.";
        assert_eq!(two(&|_| {}), [text]);
        assert!(two(&|streams| streams[1].appends = false)[0].contains("and neither appends: they"));
    }

    #[test]
    fn what_keeps_apart_is_not() {
        let silent: [&Change; 7] = [
            &|streams| streams[0].appends = true,
            &|streams| streams[0].opened = 2,
            &|streams| streams[0].inode = 9,
            &|streams| {
                (streams[0].file, streams[1].moved_ns) = ("sedaGEJ8o".to_owned(), [0, WINDOW]);
            },
            &|streams| streams[0].moved_ns = [0, 10],
            &|streams| streams[0].range = [900, 1000],
            &|streams| streams[0].moves = 1,
        ];
        for (at, change) in silent.into_iter().enumerate() {
            let found = two(&|streams| {
                streams[1].moved_ns = [20, WINDOW];
                change(streams);
            });
            assert!(found.is_empty(), "{at}: {found:?}");
        }
    }

    #[test]
    fn what_tee_empties_is_said() {
        let tee = |first: &str, second: &str| {
            said(own_input, &|recording| {
                for (process, line) in recording.recorded.iter_mut().zip([first, "grep x", second]) {
                    process.args = line.split(' ').map(str::to_owned).collect();
                    process.name.clone_from(&process.args[0]);
                }
            })
        };
        let text = "`tee` empties `f` when it starts, while `sort` reads it for the same pipeline: what is not read by then is \
                    lost. Another file that is renamed afterwards, or `sponge`, keeps it.";
        assert_eq!(tee("sort -u f", "tee f"), [text]);
        // It was empty before it was read, and nothing was written.
        let empty = |end_ns: u64| {
            said(own_input, &|recording| {
                recording.recorded[0].args = ["sort", "f"].map(str::to_owned).into();
                recording.recorded[0].name = "sort".to_owned();
                recording.recorded[2].args = ["tee", "f"].map(str::to_owned).into();
                recording.recorded[2].name = "tee".to_owned();
                recording.recorded[2].end_ns = end_ns;
                recording.recorded[0].begin_ns = 10;
                recording.channels.iter_mut().for_each(|pipe| pipe.writers.clear());
            })
        };
        assert_eq!(empty(20), [text]);
        assert!(empty(10).is_empty(), "`tee` had ended before `sort` began");
        for (first, second) in [("sort f", "tee g"), ("sort f", "tee -a f"), ("grep f g", "tee f"), ("seq f", "tee f")]
        {
            assert!(tee(first, second).is_empty(), "{first} | {second}");
        }
    }

    #[test]
    fn what_the_shell_empties_is_found() {
        let of = |line: &str| {
            emptied_by_shell(line).into_iter().map(|(program, file)| format!("{program} {file}")).collect::<Vec<_>>()
        };
        assert_eq!(of("cat f | sed s/1/2/ > f; wc -l f"), ["cat f"]);
        assert_eq!(of("sort f >f"), ["sort f"]);
        assert_eq!(of("sed s/a/b/ f | sort >f"), ["sed f"]);
        for line in [
            "cat f > g; cat g > f",
            "cat f >> f",
            "cat f >g && mv g f",
            "grep f g >f",
            "cat 'f' >f",
            "sort <f >g",
            "cat f 2>&1 | wc",
            "seq 9 >f; sort f | uniq",
        ] {
            assert!(of(line).is_empty(), "{line}");
        }
    }
}
