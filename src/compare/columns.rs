//! Find and label the differences between columns: kernel, configuration, command line, workload, machine.

use super::model::{Column, Difference, Shared};
use super::settings::{self, COMPILER, MITIGATIONS, NOT_AFFECTED};
use crate::kernel::config;
use crate::result::Document;
use std::collections::{BTreeMap, BTreeSet};

/// Order of settings in the header: the kernel first, then its configuration, the workload, the machine.
fn rank(what: &str) -> usize {
    const ORDER: &[&str] =
        &["kernel.release", "kernel.command_line", "workload", "memcg", "CONFIG", "kernel", "environment", "version"];
    ORDER.iter().position(|prefix| what.starts_with(prefix)).unwrap_or(ORDER.len())
}

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
    let settings: Vec<BTreeMap<String, String>> = documents.iter().map(|document| settings::of(document)).collect();
    let names: BTreeSet<&String> = settings.iter().flat_map(BTreeMap::keys).collect();
    let mut found = ColumnSettings::default();
    for what in names {
        let option = what.starts_with("CONFIG_");
        let other = option && settings::matters(what).is_empty();
        let value = |(flat, document): (&BTreeMap<String, String>, &&Document)| {
            let absent = match option {
                true if !config_known(document) => UNKNOWN,
                // Off, or a module.
                true if other => "-",
                true => config::absent_value(what),
                false if what == COMPILER => UNKNOWN,
                // Older kernels do not know the vulnerability.
                false if what.starts_with(MITIGATIONS) => NOT_AFFECTED,
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
        let matters = config::removed(what).unwrap_or(settings::matters(what)).to_owned();
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
                if let Some(axis) = settings::axis(&difference.what) {
                    parts.push(format!("{}={}", axis.name, settings::shown(&difference.what, value)));
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
