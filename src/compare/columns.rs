//! Find and label the differences between columns: kernel, configuration, command line, workload, machine.

use super::model::{Column, Difference, Shared};
use crate::kernel::config;
use crate::kernel::info::compiler_name;
use crate::result::Document;
use crate::workload::axis::Axis;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The effect of configuration options and settings on pipes. The longest matching prefix applies.
const MATTERS: &[(&str, &str)] = &[
    (
        "CONFIG_PREEMPT",
        "when a writer holding the pipe's lock can be interrupted, and whether it sleeps or is preempted",
    ),
    ("CONFIG_HZ", "timer interrupts within the window"),
    ("CONFIG_MEMCG", "every pipe page is charged to a memory cgroup"),
    ("CONFIG_NUMA", "page allocation consults a memory policy"),
    ("CONFIG_HARDENED_USERCOPY", "a check before each copy from or to user memory"),
    ("CONFIG_INIT_ON_ALLOC", "new pipe pages are cleared first"),
    ("CONFIG_INIT_ON_FREE", "freed pipe pages are cleared"),
    ("CONFIG_MITIGATION_PAGE_TABLE_ISOLATION", "page tables are switched at each system call"),
    ("CONFIG_MITIGATION_RETPOLINE", "indirect calls cost more"),
    ("CONFIG_MITIGATION_RETHUNK", "returns cost more"),
    ("CONFIG_MITIGATION", "costs at kernel entry, exit and indirect calls"),
    ("CONFIG_PSI", "each sleep and wake-up is accounted as pressure"),
    ("CONFIG_SLUB", "the allocator of pipe buffers"),
    ("CONFIG_DEBUG", "checks on hot paths"),
    // For debuggers and BPF; no code of the kernel depends on it.
    ("CONFIG_DEBUG_INFO", ""),
    ("CONFIG_LIST_HARDENED", "a check in each list operation"),
    ("CONFIG_LOCK", "checks or accounting in locks"),
    ("CONFIG_PROVE_LOCKING", "checks in locks"),
    ("CONFIG_KASAN", "checks on every memory access"),
    ("CONFIG_MEM_ALLOC_PROFILING", "each allocation is accounted"),
    ("CONFIG_SECURITY", "a hook at each read and write"),
    ("CONFIG_AUDIT", "a check at each system call"),
    ("CONFIG_FTRACE", "a five-byte hook at the head of functions"),
    ("CONFIG_FUNCTION", "a five-byte hook at the head of functions"),
    ("CONFIG_TRANSPARENT_HUGEPAGE", "whether huge pages can back the buffer"),
    ("CONFIG_VIRT_CPU_ACCOUNTING", "time accounting at kernel entry and exit"),
    ("CONFIG_CONTEXT_TRACKING", "accounting at kernel entry and exit"),
    ("CONFIG_NO_HZ", "timer interrupts within the window"),
    ("CONFIG_SMP", "whether locks cost anything"),
    ("CONFIG_PARAVIRT", "how a guest's kernel calls its hypervisor"),
    ("CONFIG_STACKPROTECTOR", "a check at the end of functions"),
    ("CONFIG_UNWINDER", "frame pointers cost instructions in each function"),
    ("CONFIG_FRAME_POINTER", "instructions in each function"),
    ("CONFIG_RANDOMIZE_KSTACK", "a random stack offset at each system call"),
    (COMPILER, "another compiler generates other code: inlining differs"),
    ("kernel.command_line", "kernel arguments at boot"),
    ("environment.cpu_flags", "which copy loop the kernel uses"),
    ("environment.mitigations", "costs at kernel entry, exit and indirect calls"),
    ("memcg", "every pipe page is charged to a memory cgroup"),
    ("version", "another build of pipeprof has other code in its workload: compare runs of one build"),
];

/// Fields of kernel and environment that are not settings: paths, the state of the machine, and what others contain.
const LEFT_OUT: &[&str] = &[
    "kernel.config_source",
    // What kernel.compiler is read from.
    "CONFIG_CC_VERSION_TEXT",
    "kernel.machine",
    "environment.load",
    "environment.steal",
    "environment.others",
];

/// Why a setting matters to pipes; empty if unknown.
pub(crate) fn matters(what: &str) -> &'static str {
    known(what).map_or("", |(_, why)| why)
}

/// The prefix under which the effect of `what` is listed.
pub(crate) fn family(what: &str) -> Option<&str> {
    known(what).map(|(prefix, _)| prefix)
}

fn known(what: &str) -> Option<(&str, &'static str)> {
    if let Some(axis) = axis(what) {
        return Some((what, axis.matters)).filter(|(_, why)| !why.is_empty());
    }
    MATTERS.iter().filter(|(prefix, _)| what.starts_with(prefix)).max_by_key(|(prefix, _)| prefix.len()).copied()
}

/// The workload axis of the setting `what`.
fn axis(what: &str) -> Option<&'static Axis> {
    what.strip_prefix("workload.").and_then(Axis::of_field)
}

/// The settings of a run as flat names and values. The other fields of a document are what was measured.
pub(crate) fn settings(document: &Document) -> BTreeMap<String, String> {
    let Document { version, kernel, environment, memcg, ending, cycle_model, .. } = document;
    let settings = serde_json::json!({
        "version": version,
        "kernel": kernel,
        "environment": environment,
        "memcg": memcg,
        "ending": ending,
        "cycle_model": cycle_model,
        "workload": document.target.workload(),
    });
    let mut flat = BTreeMap::new();
    flatten("", &settings, &mut flat);
    flat
}

fn flatten(name: &str, value: &Value, flat: &mut BTreeMap<String, String>) {
    if LEFT_OUT.contains(&name) {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let long = match name {
                    "" => field.clone(),
                    // Options keep their own names.
                    "kernel.config" => config::present_name(field).to_owned(),
                    _ => format!("{name}.{field}"),
                };
                flatten(&long, value, flat);
            }
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            let items = if name.ends_with("emulator.arguments") { without_files(items) } else { items };
            flat.insert(name.to_owned(), items.join(" "));
        }
        Value::Null => {}
        other if name == COMPILER => {
            flat.insert(name.to_owned(), compiler_name(&plain(other)));
        }
        other => {
            flat.insert(name.to_owned(), plain(other));
        }
    }
}

/// The emulator's arguments without kernel and initramfs files; the release identifies the kernel.
fn without_files(arguments: Vec<String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if argument == "-kernel" || argument == "-initrd" {
            arguments.next();
        } else {
            kept.push(argument);
        }
    }
    kept
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Order of settings in the header: the kernel first, then its configuration, the workload, the machine.
fn rank(what: &str) -> usize {
    const ORDER: &[&str] =
        &["kernel.release", "kernel.command_line", "workload", "memcg", "CONFIG", "kernel", "environment", "version"];
    ORDER.iter().position(|prefix| what.starts_with(prefix)).unwrap_or(ORDER.len())
}

/// The compiler of the kernel, which old documents do not contain.
pub(super) const COMPILER: &str = "kernel.compiler";

/// The value of options in a column whose configuration is unknown.
pub(super) const UNKNOWN: &str = "unknown";

/// Whether the configuration of the kernel could be read.
pub(crate) fn config_known(document: &Document) -> bool {
    !document.kernel.config.is_empty()
}

/// The settings of several columns.
#[derive(Debug, Default)]
pub(crate) struct ColumnSettings {
    pub differences: Vec<Difference>,
    pub shared: Vec<Shared>,
    /// Built-in options that differ and are not known to matter.
    pub other_options: Vec<Difference>,
}

/// The settings of `documents`, one per column.
pub(crate) fn split(documents: &[&Document]) -> ColumnSettings {
    let settings: Vec<BTreeMap<String, String>> = documents.iter().map(|document| settings(document)).collect();
    let names: BTreeSet<&String> = settings.iter().flat_map(BTreeMap::keys).collect();
    let mut found = ColumnSettings::default();
    for what in names {
        let option = what.starts_with("CONFIG_");
        let other = option && matters(what).is_empty();
        let value = |(flat, document): (&BTreeMap<String, String>, &&Document)| {
            let absent = match option {
                true if !config_known(document) => UNKNOWN,
                // Off, or a module.
                true if other => "-",
                true => config::absent_value(what),
                false if what == COMPILER => UNKNOWN,
                false => "-",
            };
            flat.get(what).cloned().unwrap_or_else(|| absent.to_owned())
        };
        let values: Vec<String> = settings.iter().zip(documents).map(value).collect();
        if values.iter().any(|value| value == UNKNOWN) {
            // Whether the columns differ is unknown, unless two known values do.
            let known: BTreeSet<&String> = values.iter().filter(|value| *value != UNKNOWN).collect();
            if known.len() < 2 {
                continue;
            }
        }
        if values.windows(2).all(|pair| pair[0] == pair[1]) {
            let value = values.into_iter().next().unwrap_or_default();
            found.shared.extend((!other).then(|| Shared { what: what.clone(), value }));
            continue;
        }
        let matters = config::removed(what).unwrap_or(matters(what)).to_owned();
        let difference = Difference { what: what.clone(), matters, values: unlike(values) };
        if other { &mut found.other_options } else { &mut found.differences }.push(difference);
    }
    found.differences.sort_by_key(|difference| (rank(&difference.what), difference.what.clone()));
    found.shared.sort_by_key(|shared| (rank(&shared.what), shared.what.clone()));
    found
}

/// Shorten long values (command lines, lists of flags) to the words that not all of them contain, or to the phrases
/// between commas or semicolons (mitigations).
fn unlike(values: Vec<String>) -> Vec<String> {
    if values.iter().all(|value| value.split_whitespace().count() < 4) {
        return values;
    }
    let phrases = values.iter().any(|value| value.contains(", ") || value.contains("; "));
    let parts = |value: &'_ str| -> Vec<String> {
        match phrases {
            true => value.replace("; ", ", ").split(", ").map(str::to_owned).collect(),
            false => value.split_whitespace().map(str::to_owned).collect(),
        }
    };
    let parts: Vec<Vec<String>> = values.iter().map(|value| parts(value)).collect();
    let common = |part: &String| parts.iter().all(|of_one| of_one.contains(part));
    let cut: Vec<String> = parts
        .iter()
        .map(|of_one| {
            let own: Vec<&str> = of_one.iter().filter(|part| !common(part)).map(String::as_str).collect();
            if own.is_empty() { "without".to_owned() } else { own.join(if phrases { "; " } else { " " }) }
        })
        .collect();
    // If only the order or number of words differs, show the whole values.
    if cut.windows(2).all(|pair| pair[0] == pair[1]) { values } else { cut }
}

/// A release's version numbers: `6.12.57` of `6.12.57+deb13-cloud-amd64`.
pub(crate) fn short_release(release: &str) -> &str {
    let end = release.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(release.len());
    let short = release[..end].trim_end_matches('.');
    if short.is_empty() { release } else { short }
}

/// A distinct label per column: the given one, else the shortest that distinguishes the columns.
pub(crate) fn labels(given: &[Option<String>], documents: &[&Document]) -> Vec<String> {
    let different = |labels: &[String]| labels.iter().collect::<BTreeSet<_>>().len() == labels.len();
    let with = |of: &dyn Fn(usize) -> String| -> Vec<String> {
        given.iter().enumerate().map(|(index, label)| label.clone().unwrap_or_else(|| of(index))).collect()
    };
    let release = |index: usize| documents[index].kernel.release.as_str();
    let short = with(&|index| short_release(release(index)).to_owned());
    if different(&short) {
        return short;
    }
    let full = with(&|index| release(index).to_owned());
    if different(&full) {
        return full;
    }
    let settings = distinguishing(documents);
    let mut named = with(&|index| {
        let release = short_release(release(index));
        if settings[index].is_empty() { release.to_owned() } else { format!("{release} {}", settings[index]) }
    });
    number_copies(&mut named);
    named
}

/// Number equal labels (A/A).
pub(crate) fn number_copies<'a>(labels: impl IntoIterator<Item = &'a mut String>) {
    let labels: Vec<&mut String> = labels.into_iter().collect();
    let copies: Vec<String> = labels.iter().map(|label| (**label).clone()).collect();
    for (index, label) in labels.into_iter().enumerate() {
        let count = |among: &[String]| among.iter().filter(|other| **other == copies[index]).count();
        if count(&copies) > 1 {
            *label = format!("{label} ({})", count(&copies[..=index]));
        }
    }
}

/// For columns with equal releases: the kernel arguments and workload axes in which they differ.
fn distinguishing(documents: &[&Document]) -> Vec<String> {
    let words: Vec<BTreeSet<&str>> =
        documents.iter().map(|document| document.kernel.command_line.split_whitespace().collect()).collect();
    let differences = split(documents).differences;
    (0..documents.len())
        .map(|index| {
            let mut parts: Vec<String> = words[index]
                .iter()
                .filter(|word| !words.iter().all(|other| other.contains(*word)))
                .map(|word| (*word).to_owned())
                .collect();
            for difference in &differences {
                let value = &difference.values[index];
                if let Some(axis) = axis(&difference.what) {
                    let value = axis.parse(value).map_or_else(|_| value.clone(), |value| axis.format(&value));
                    parts.push(format!("{}={value}", axis.name));
                    continue;
                }
                let other = difference.what.strip_prefix("workload.").or(difference.what.strip_prefix("environment."));
                if let Some(name) = other
                    .filter(|name| !["emulator", "mitigations", "memory_bytes"].iter().any(|no| name.starts_with(no)))
                {
                    parts.push(format!("{}={value}", name.replace('_', "-")));
                }
            }
            parts.truncate(3);
            parts.join(" ")
        })
        .collect()
}

/// Make the columns.
pub(crate) fn columns(given: &[Option<String>], documents: &[&Document], sources: Vec<Vec<String>>) -> Vec<Column> {
    labels(given, documents)
        .into_iter()
        .zip(documents)
        .zip(sources)
        .map(|((label, document), sources)| Column { label, release: document.kernel.release.clone(), sources })
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn long_values_are_cut_to_what_differs() {
        let cut = |values: [&str; 2]| super::unlike(values.map(str::to_owned).to_vec());
        let mitigations = [
            "Mitigation: Retpolines, STIBP: disabled, RSB filling",
            "Mitigation: Retpolines; STIBP: disabled; BHI: Retpoline",
        ];
        assert_eq!(cut(mitigations), ["RSB filling", "BHI: Retpoline"]);
        assert_eq!(cut(["console=ttyS0,115200 a b quiet", "console=ttyS0,115200 a b"]), ["quiet", "without"]);
    }
}
