//! What a matrix runs: every column in every mode.

use super::columns::number_copies;
use crate::experiment::StopRule;
use crate::run::RunOptions;
use crate::vm;
use crate::workload::axis::{Axis, Value};
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::UNIX_EPOCH;

/// The `schema` of `matrix.json`.
pub const SCHEMA: &str = "pipeprof.matrix/4";

/// The axes that make columns. An empty list does not vary.
#[derive(Debug, Clone, Default)]
pub struct Axes {
    /// Modes, where they are not sections.
    pub modes: Vec<String>,
    pub kernels: Vec<String>,
    /// Numbers of CPUs, where they are not sections.
    pub guest_cpus: Vec<u32>,
    /// Kernel arguments; empty for none.
    pub appends: Vec<String>,
    /// QEMU's CPU models; empty for the default.
    pub cpus: Vec<String>,
    pub memcg: Vec<bool>,
    /// Values of axes of the workload.
    pub workload: Vec<(&'static Axis, Vec<Value>)>,
    /// Sets of further options, one per column; they include the options common to all columns.
    pub variants: Vec<Variant>,
}

/// Further options of a column.
#[derive(Debug, Clone, Default)]
pub struct Variant {
    /// Name in labels; may be empty.
    pub name: String,
    pub options: RunOptions,
}

/// A planned column.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ColumnPlan {
    /// Its label; absent: derived from its runs.
    pub label: Option<String>,
    /// Its options; the plan has the mode.
    pub options: RunOptions,
    /// Size and time of the kernel's image; a rebuilt image is another kernel.
    pub image: Option<String>,
}

/// A column, with the value of each given axis as it is typed.
#[derive(Debug, Clone)]
pub struct AxisCombination {
    pub column: ColumnPlan,
    pub values: Vec<(&'static str, String)>,
}

/// One value of an axis.
enum ColumnChange<'a> {
    Mode(&'a str),
    Kernel(&'a str),
    GuestCpus(u32),
    Cpu(&'a str),
    Append(&'a str),
    Memcg(bool),
    Workload(&'static Axis, &'a Value),
    Variant(&'a Variant),
}

/// A whole matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatrixPlan {
    pub schema: String,
    /// pipeprof's version and build, because another build has other code in its workload.
    pub build: String,
    pub columns: Vec<ColumnPlan>,
    pub modes: Vec<String>,
    /// Exact: numbers of CPUs on which each column is counted in each mode; empty for that of its options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// Number of blocks, in which every column runs once: boots of guests, or periods on the host. One if exact.
    pub blocks: usize,
    /// Runs per column, mode and block; absent if exact.
    pub runs: Option<u32>,
    /// Whether the first column is measured a second time, as a control.
    pub control: bool,
    pub seed: u64,
    /// When to stop by precision or time.
    #[serde(default, skip_serializing_if = "StopRule::is_none")]
    pub stop: StopRule,
}

impl MatrixPlan {
    /// The modes, each with all numbers of CPUs.
    pub fn cases(&self) -> impl Iterator<Item = (&str, Option<u32>)> {
        self.modes.iter().flat_map(|mode| {
            let cpus = self.cpus.iter().copied().map(Some);
            let own = self.cpus.is_empty().then_some(None);
            cpus.chain(own).map(move |cpus| (mode.as_str(), cpus))
        })
    }
}

/// The axis whose values are columns' names without its own: a size alone is understood.
const SHORT_AXIS: &str = "buffer-size";

/// Maximum number of combinations; more are probably a typing error.
const MOST_COMBINATIONS: usize = 2_000;

/// All combinations of the axes as columns. The first varies slowest: kernel, CPU, kernel arguments, cgroup, workload,
/// variant.
pub fn columns(axes: &Axes) -> Result<Vec<ColumnPlan>> {
    let columns: Vec<ColumnPlan> = combinations(axes)?.into_iter().map(|made| made.column).collect();
    ensure!(
        columns.len() >= 2,
        "nothing to compare with one column: repeat --kernel, --append (--append '' for none), --cpu, --memcg, \
         --buffer-size or --variant, or give stored runs"
    );
    Ok(columns)
}

/// As [`columns`], with their values, and one is enough.
pub fn combinations(axes: &Axes) -> Result<Vec<AxisCombination>> {
    let mut lists: Vec<Vec<ColumnChange>> = vec![
        axes.modes.iter().map(|mode| ColumnChange::Mode(mode)).collect(),
        axes.kernels.iter().map(|kernel| ColumnChange::Kernel(kernel)).collect(),
        axes.guest_cpus.iter().map(|cpus| ColumnChange::GuestCpus(*cpus)).collect(),
        axes.cpus.iter().map(|cpu| ColumnChange::Cpu(cpu)).collect(),
        axes.appends.iter().map(|append| ColumnChange::Append(append)).collect(),
        axes.memcg.iter().map(|memcg| ColumnChange::Memcg(*memcg)).collect(),
    ];
    lists.extend(axes.workload.iter().map(|(axis, values)| {
        let axis: &'static Axis = axis;
        values.iter().map(|value| ColumnChange::Workload(axis, value)).collect()
    }));
    lists.push(axes.variants.iter().map(ColumnChange::Variant).collect());
    lists.retain(|list| !list.is_empty());
    let count = lists.iter().try_fold(1usize, |count, list| count.checked_mul(list.len()));
    ensure!(
        count.is_some_and(|count| count <= MOST_COMBINATIONS),
        "these flags make more than {MOST_COMBINATIONS} combinations, because their values multiply: give fewer"
    );

    let mut combinations: Vec<Vec<(&ColumnChange, bool)>> = vec![Vec::new()];
    for list in &lists {
        let varies = list.len() > 1;
        combinations = combinations
            .iter()
            .flat_map(|before| list.iter().map(|change| [before.as_slice(), &[(change, varies)]].concat()))
            .collect();
    }
    let mut columns = combinations.iter().map(|changes| column(changes)).collect::<Result<Vec<_>>>()?;
    number_copies(columns.iter_mut().filter_map(|made| made.column.label.as_mut()));
    Ok(columns)
}

/// The column with these changes; each says whether its axis has several values.
fn column(changes: &[(&ColumnChange, bool)]) -> Result<AxisCombination> {
    let mut column = ColumnPlan::default();
    let mut values = Vec::new();
    // A variant's options come first; other changes modify them.
    for (change, _) in changes {
        if let ColumnChange::Variant(variant) = change {
            column.options = variant.options.clone();
        }
    }
    let twice = |flag: &str| format!("{flag} is given twice; remove it from --variant and --run-flags");
    for (change, varies) in changes {
        let options = &mut column.options;
        // The axis, its value, and what the value is called in labels.
        let (axis, value, name) = match change {
            ColumnChange::Mode(mode) => {
                options.workload.mode = Some((*mode).to_owned());
                ("mode", (*mode).to_owned(), None)
            }
            ColumnChange::Kernel(kernel) => {
                ensure!(options.kernel.is_none(), twice("--kernel"));
                options.kernel = Some((*kernel).to_owned());
                column.image = image(kernel);
                column.label = name_of(kernel);
                ("kernel", (*kernel).to_owned(), None)
            }
            ColumnChange::GuestCpus(cpus) => {
                ensure!(options.machine.cpus.is_none(), twice("--cpus"));
                options.machine.cpus = Some(*cpus);
                ("cpus", cpus.to_string(), None)
            }
            ColumnChange::Cpu("") => ("cpu", "default".to_owned(), Some("cpu=default".to_owned())),
            ColumnChange::Cpu(cpu) => {
                ensure!(options.machine.cpu.is_none(), twice("--cpu"));
                options.machine.cpu = Some((*cpu).to_owned());
                ("cpu", (*cpu).to_owned(), Some(format!("cpu={cpu}")))
            }
            ColumnChange::Append(append) => {
                if !append.is_empty() {
                    options.machine.append.insert(0, (*append).to_owned());
                }
                ("append", (*append).to_owned(), Some((*append).to_owned()))
            }
            ColumnChange::Memcg(memcg) => {
                ensure!(
                    options.memcg,
                    "--memcg conflicts with --no-memcg in --variant or --run-flags; remove one of them"
                );
                options.memcg = *memcg;
                let (value, name) = if *memcg { ("on", "memcg") } else { ("off", "no memcg") };
                ("memcg", value.to_owned(), Some(name.to_owned()))
            }
            ColumnChange::Workload(axis, value) => {
                let former = options.workload.overrides.put(axis, (*value).clone());
                ensure!(former.is_none(), twice(&format!("--{}", axis.name)));
                let value = axis.format(value);
                let name = if axis.name == SHORT_AXIS { value.clone() } else { format!("{}={value}", axis.name) };
                (axis.name, value, Some(name))
            }
            ColumnChange::Variant(variant) => ("variant", variant.name.clone(), Some(variant.name.clone())),
        };
        if let Some(name) = name.filter(|name| *varies && !name.is_empty()) {
            column.label = Some(column.label.map_or_else(|| name.clone(), |label| format!("{label} {name}")));
        }
        if *varies || !value.is_empty() {
            values.push((axis, value));
        }
    }
    Ok(AxisCombination { column, values })
}

/// A series or release is a label. A path is not; the run has its release.
fn name_of(kernel: &str) -> Option<String> {
    (!kernel.contains('/') && !Path::new(kernel).exists()).then(|| kernel.to_owned())
}

/// Size and time of a kernel's image, if it is on this machine.
pub fn image(kernel: &str) -> Option<String> {
    let metadata = std::fs::metadata(vm::Kernel::find(kernel).ok()?.image).ok()?;
    let changed = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{} bytes, changed {}.{:09}", metadata.len(), changed.as_secs(), changed.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axes: &Axes) -> Vec<String> {
        columns(axes).unwrap().into_iter().map(|column| column.label.unwrap_or_default()).collect()
    }

    fn texts(values: &[&str]) -> Vec<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    }

    fn buffer_size(values: &[u64]) -> (&'static Axis, Vec<Value>) {
        (Axis::find("buffer-size").unwrap(), values.iter().map(|bytes| Value::Number(*bytes)).collect())
    }

    #[test]
    fn axes_multiply() {
        let axes =
            Axes { kernels: texts(&["6.1", "6.12"]), appends: texts(&["", "mitigations=off"]), ..Axes::default() };
        assert_eq!(labels(&axes), ["6.1", "6.1 mitigations=off", "6.12", "6.12 mitigations=off"]);
        let second = &columns(&axes).unwrap()[1].options;
        assert_eq!(
            (second.kernel.as_deref(), second.machine.append.join(" ")),
            (Some("6.1"), "mitigations=off".into())
        );
        let axes = Axes {
            kernels: texts(&["6.1"]),
            cpus: texts(&["", "max"]),
            memcg: vec![true, false],
            workload: vec![buffer_size(&[4096])],
            ..Axes::default()
        };
        let expected = ["cpu=default memcg", "cpu=default no memcg", "cpu=max memcg", "cpu=max no memcg"];
        assert_eq!(labels(&axes), expected.map(|label| format!("6.1 {label}")));
        let last = &columns(&axes).unwrap()[3].options;
        assert_eq!((last.machine.cpu.as_deref(), last.memcg), (Some("max"), false));
        assert_eq!(last.workload.spec().unwrap().1.buffer_size, 4096);
    }

    #[test]
    fn too_many_columns_are_refused_before_they_are_made() {
        let many: Vec<String> = (0..200).map(|number| format!("a={number}")).collect();
        let axes = Axes { kernels: many.clone(), cpus: many.clone(), appends: many, ..Axes::default() };
        assert!(columns(&axes).unwrap_err().to_string().contains("more than 2000 combinations"));
    }

    fn variant(name: &str, change: impl FnOnce(&mut RunOptions)) -> Variant {
        let mut options = RunOptions::default();
        change(&mut options);
        Variant { name: name.to_owned(), options }
    }

    #[test]
    fn columns_are_changes_to_their_variants() {
        let axes = Axes {
            kernels: texts(&["6.1"]),
            appends: texts(&["quiet"]),
            variants: vec![
                variant("", |_| {}),
                variant("psi off", |options| options.machine.append = texts(&["psi=0"])),
            ],
            ..Axes::default()
        };
        assert_eq!(labels(&axes), ["6.1", "6.1 psi off"]);
        let columns = columns(&axes).unwrap();
        assert_eq!(columns[0].options.machine.append, ["quiet"]);
        assert_eq!(columns[1].options.machine.append, ["quiet", "psi=0"]);
        assert_eq!(columns[1].options.kernel.as_deref(), Some("6.1"));
    }

    #[test]
    fn what_is_given_twice_is_refused_by_flag() {
        let refused = |axes: Axes, change: fn(&mut RunOptions)| {
            let axes = Axes { variants: vec![variant("", |_| {}), variant("x", change)], ..axes };
            columns(&axes).unwrap_err().to_string()
        };
        let kernel = |options: &mut RunOptions| options.kernel = Some("6.1".into());
        assert!(refused(Axes { kernels: texts(&["6.1"]), ..Axes::default() }, kernel).starts_with("--kernel"));
        let cpu = |options: &mut RunOptions| options.machine.cpu = Some("max".into());
        assert!(refused(Axes { cpus: texts(&["max"]), ..Axes::default() }, cpu).starts_with("--cpu"));
        let memcg = |options: &mut RunOptions| options.memcg = false;
        assert!(refused(Axes { memcg: vec![true], ..Axes::default() }, memcg).starts_with("--memcg"));
        let size = |options: &mut RunOptions| {
            options.workload.overrides.put(Axis::find("buffer-size").unwrap(), Value::Number(1));
        };
        let axes = Axes { workload: vec![buffer_size(&[4096])], ..Axes::default() };
        assert!(refused(axes, size).starts_with("--buffer-size"));
    }

    #[test]
    fn the_same_kernel_twice_is_two_columns() {
        let axes = Axes { kernels: texts(&["6.1", "6.1"]), ..Axes::default() };
        assert_eq!(labels(&axes), ["6.1 (1)", "6.1 (2)"]);
    }

    #[test]
    fn one_column_is_refused_with_the_ways_to_more() {
        let error = columns(&Axes { kernels: texts(&["6.1"]), ..Axes::default() }).unwrap_err().to_string();
        assert!(error.contains("--append"), "{error}");
    }

    #[test]
    fn a_stored_column_is_read_back() {
        let axes = Axes { kernels: texts(&["6.1"]), workload: vec![buffer_size(&[4096, 8192])], ..Axes::default() };
        let columns = columns(&axes).unwrap();
        let text = serde_json::to_string(&columns).unwrap();
        assert_eq!(serde_json::from_str::<Vec<ColumnPlan>>(&text).unwrap(), columns);
    }
}
