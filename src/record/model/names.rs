//! The names of processes, in tables and in files.

use crate::profile::ProcessName;
use crate::record::model::stages;
use crate::record::say::graphs::{CRITICAL_PATH, TIMELINE_FILE};
use crate::result::Document;
use crate::result::stack_files::OFF_CPU;
use crate::util::text::clean;
use std::collections::{HashMap, HashSet};

/// One process.
struct Named {
    label: String,
    file: ProcessName,
}

/// The names of processes in texts and tables: those of their stage, where they are the whole stage, such as `stage2-gzip`
/// if gzip is several stages. Other programs of one name are numbered: `xargs-2`.
pub(crate) fn labels(recording: &Document) -> Vec<String> {
    names(recording).into_iter().map(|named| named.label).collect()
}

/// The names of processes in files, each once: [`labels`], but if pipeprof started several stages, all have their number.
pub fn process_names(recording: &Document) -> Vec<ProcessName> {
    names(recording).into_iter().map(|named| named.file).collect()
}

fn names(recording: &Document) -> Vec<Named> {
    let typed = recording.target.stages().len() > 1;
    let stages = stages::stages(recording);
    let of_stages = stages::names(recording, &stages);
    // Other files of the folder have these names.
    let mut known: HashSet<ProcessName> =
        [OFF_CPU, CRITICAL_PATH, TIMELINE_FILE.trim_end_matches(".svg")].into_iter().map(ProcessName::new).collect();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let whole = |at: usize| stages.of(at).filter(|stage| stages[*stage][..] == [at]);
    // Processes that are a whole stage have its name, which no other gets.
    let mut order: Vec<usize> = (0..recording.recorded.len()).collect();
    order.sort_by_key(|at| whole(*at).is_none());
    let mut named: Vec<(usize, Named)> = Vec::with_capacity(order.len());
    for at in order {
        let (process, whole) = (&recording.recorded[at], whole(at));
        let name = whole.map_or(&process.name, |stage| &of_stages[stage]);
        let stage = stages::numbered(process.stage as usize + 1, "");
        let plain = if typed && !name.starts_with(&stage) { format!("{stage}{name}") } else { name.clone() };
        let number = numbers.entry(plain.clone()).or_default();
        let (suffix, file) = loop {
            *number += 1;
            let suffix = if *number == 1 { String::new() } else { format!("-{number}") };
            let file = ProcessName::new(&format!("{plain}{suffix}"));
            if file.is_of_target() && known.insert(file) {
                break (suffix, file);
            }
        };
        let label = if whole.is_some() { name.clone() } else { format!("{name}{suffix}") };
        named.push((at, Named { label: clean(&label), file }));
    }
    named.sort_by_key(|(at, _)| *at);
    named.into_iter().map(|(_, named)| named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::model::stages::tests::shell;

    #[test]
    fn a_process_has_one_number_in_tables_and_files() {
        let recording = shell(["sh", "gzip", "tar", "gzip", "sh", "other", "tar"], &[[&[2], &[1]], [&[1], &[3]]]);
        let files: Vec<&str> = process_names(&recording).into_iter().map(|name| name.as_str()).collect();
        assert_eq!(files, ["sh", "stage2-gzip", "tar", "stage3-gzip", "sh-2", "other-2", "tar-2"]);
        assert_eq!(labels(&recording), ["sh", "stage2-gzip", "tar", "stage3-gzip", "sh-2", "other-2", "tar-2"]);
        // Also if the other one comes first.
        assert_eq!(labels(&shell(["tar", "tar", "wc"], &[[&[1], &[2]]])), ["tar-2", "tar", "wc"]);
        // Nobody counts the stages of a tree of processes.
        let all: Vec<usize> = (0..11).collect();
        let pipes: Vec<[&[usize]; 2]> = all.windows(2).map(|pair| [&pair[..1], &pair[1..]]).collect();
        assert_eq!(labels(&shell(["cat"; 11], &pipes))[..3], ["cat", "cat-2", "cat-3"]);
    }
}
