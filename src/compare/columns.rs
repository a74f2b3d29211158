//! Find and label the differences between columns: kernel, configuration, command line, workload, machine.

use super::model::{Column, Difference, Shared, cpus_text};
use super::settings::{self, COMPILER, EMULATOR_ARGUMENTS, MITIGATIONS, NOT_AFFECTED};
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
pub struct ColumnSettings {
    pub differences: Vec<Difference>,
    pub shared: Vec<Shared>,
    /// Options that differ, if they may matter or are built in.
    pub options: Vec<Difference>,
}

/// In the order of the header.
pub(super) fn sort(differences: &mut [Difference]) {
    differences.sort_by_key(|difference| (rank(&difference.what), difference.what.clone()));
}

/// The settings of `documents`, one per column.
pub fn split(documents: &[&Document]) -> ColumnSettings {
    let settings: Vec<BTreeMap<String, String>> = documents.iter().map(|document| settings::of(document)).collect();
    let names: BTreeSet<&String> = settings.iter().flat_map(BTreeMap::keys).collect();
    let mut found = ColumnSettings::default();
    for what in names {
        let option = what.starts_with("CONFIG_");
        let other = option && !config::matters(what);
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
        let difference = Difference { what: what.clone(), matters, modes: Vec::new(), values: unlike(values) };
        if option { &mut found.options } else { &mut found.differences }.push(difference);
    }
    sort(&mut found.differences);
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

/// A distinct label per column: the given one, else its release with what the workload and the number of CPUs (`with_cpus`)
/// have that those of others do not, and as much more as distinguishes the columns.
pub fn labels(given: &[Option<String>], documents: &[&Document], with_cpus: bool) -> Vec<String> {
    let differences = split(documents).differences;
    let work: Vec<Vec<String>> = (0..documents.len()).map(|index| work(&differences, index, with_cpus)).collect();
    let with = |release: &dyn Fn(&str) -> String, more: &dyn Fn(usize) -> Vec<String>| -> Vec<String> {
        let own = |index: usize| {
            let mut parts = work[index].clone();
            parts.extend(more(index));
            parts.truncate(3);
            parts.insert(0, release(&documents[index].kernel.release));
            parts.join(" ")
        };
        given.iter().enumerate().map(|(index, label)| label.clone().unwrap_or_else(|| own(index))).collect()
    };
    let short = |release: &str| short_release(release).to_owned();
    let nothing = |_: usize| Vec::new();
    for labels in [with(&short, &nothing), with(&str::to_owned, &nothing)] {
        if labels.iter().collect::<BTreeSet<_>>().len() == labels.len() {
            return labels;
        }
    }
    let mut named = with(&short, &|index| further(documents, &differences, index));
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

/// The field of the number of CPUs.
const CPUS: &str = "environment.cpus";

/// The axes of the workload in which a column differs from others, and its number of CPUs.
fn work(differences: &[Difference], column: usize, with_cpus: bool) -> Vec<String> {
    let part = |Difference { what, values, .. }: &Difference| {
        let value = values.get(column)?;
        match settings::axis(what) {
            Some(axis) => Some(format!("{}={}", axis.name, settings::shown(what, value))),
            None => Some(cpus_text(value.parse().ok()?)).filter(|_| with_cpus && what == CPUS),
        }
    };
    differences.iter().filter_map(part).collect()
}

/// The kernel arguments of a column, and what else of its settings, that others do not have.
fn further(documents: &[&Document], differences: &[Difference], column: usize) -> Vec<String> {
    let words = |document: &&Document| -> BTreeSet<String> {
        document.kernel.command_line.split_whitespace().map(str::to_owned).collect()
    };
    let all: Vec<BTreeSet<String>> = documents.iter().map(words).collect();
    let own = all[column].iter().filter(|word| !all.iter().all(|other| other.contains(*word))).cloned();
    let others = differences.iter().filter(|difference| settings::axis(&difference.what).is_none()).filter_map(
        |Difference { what, values, .. }| {
            let name = what.strip_prefix("workload.").or(what.strip_prefix("environment."))?;
            let is_long = ["emulator", "mitigations", "memory_bytes", "cpus"].iter().any(|no| name.starts_with(no));
            (!is_long).then(|| format!("{}={}", name.replace('_', "-"), values[column]))
        },
    );
    own.chain(others).collect()
}

/// By column, the number of its setting: what is not the kernel's. Kernels are compared in each setting, if there are
/// several in each; otherwise all columns have one number.
pub(crate) fn settings_of(documents: &[&Document]) -> Vec<usize> {
    const SETTINGS: [&str; 4] = [CPUS, EMULATOR_ARGUMENTS, "kernel.command_line", "memcg"];
    let differences = split(documents).differences;
    let is_setting = |what: &str| settings::axis(what).is_some() || SETTINGS.contains(&what);
    let of = |column: usize| -> Vec<&String> {
        let settings = differences.iter().filter(|difference| is_setting(&difference.what));
        settings.filter_map(|difference| difference.values.get(column)).collect()
    };
    let all: Vec<Vec<&String>> = (0..documents.len()).map(of).collect();
    let first = |setting| all.iter().position(|other| other == setting).unwrap_or(0);
    let has_several = |setting| all.iter().filter(|other| *other == setting).count() > 1;
    all.iter().map(|setting| if all.iter().all(has_several) { first(setting) } else { 0 }).collect()
}

/// Make the columns.
pub fn columns(
    given: &[Option<String>],
    documents: &[&Document],
    sources: Vec<Vec<String>>,
    with_cpus: bool,
) -> Vec<Column> {
    labels(given, documents, with_cpus)
        .into_iter()
        .zip(documents)
        .zip(sources)
        .map(|((label, document), sources)| Column { label, release: document.kernel.release.clone(), sources })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::MeasuredTarget;
    use crate::workload::Spec;

    fn run(release: &str, buffer_size: u64, cpus: u32) -> Document {
        let mut document = Document::default();
        document.kernel.release = release.to_owned();
        document.kernel.command_line = if cpus > 1 { "quiet maxcpus=1" } else { "quiet" }.to_owned();
        document.environment.cpus = cpus;
        document.target = MeasuredTarget::Pair { workload: Spec { buffer_size, ..Spec::default() } };
        document
    }

    #[test]
    fn labels_name_sizes_and_cpus_that_differ() {
        let named = |runs: [Document; 2]| labels(&[None, None], &runs.each_ref(), true);
        assert_eq!(named([run("6.1.9", 512, 1), run("6.12.9", 512, 1)]), ["6.1.9", "6.12.9"]);
        assert_eq!(named([run("6.1.9", 512, 1), run("6.1.9", 512, 2)]), ["6.1.9 1 CPU", "6.1.9 2 CPUs"]);
        assert_eq!(named([run("6.1.9", 512, 1), run("6.12.9", 512, 2)]), ["6.1.9 1 CPU", "6.12.9 2 CPUs"]);
        assert_eq!(
            named([run("6.1.9", 512, 1), run("6.12.9", 4096, 1)]),
            ["6.1.9 buffer-size=512", "6.12.9 buffer-size=4K"]
        );
        // Those of sections with their own number of CPUs.
        let runs = [run("6.1.9", 512, 1), run("6.12.9", 512, 2)];
        assert_eq!(labels(&[None, None], &runs.each_ref(), false), ["6.1.9", "6.12.9"]);
    }

    #[test]
    fn kernels_are_compared_in_each_setting_that_has_several() {
        let of = |runs: &[(&str, u64, u32)]| {
            let runs: Vec<Document> = runs.iter().map(|(release, size, cpus)| run(release, *size, *cpus)).collect();
            settings_of(&runs.iter().collect::<Vec<_>>())
        };
        assert_eq!(of(&[("6.1", 512, 1), ("6.1", 4096, 1), ("6.12", 512, 1), ("6.12", 4096, 1)]), [0, 1, 0, 1]);
        assert_eq!(of(&[("6.1", 512, 1), ("6.12", 512, 1), ("6.1", 512, 2), ("6.12", 512, 2)]), [0, 0, 2, 2]);
        assert_eq!(of(&[("6.1", 512, 1), ("6.1", 4096, 1), ("6.1", 8192, 1)]), [0, 0, 0]);
        assert_eq!(of(&[("6.1", 512, 1), ("6.12", 512, 1), ("7.2", 4096, 1)]), [0, 0, 0]);
    }

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
