//! The settings of a run: their fields in a document, what people call them, how their values are shown, and why they
//! matter to pipes.

use crate::kernel::config;
use crate::kernel::info::compiler_name;
use crate::report::number;
use crate::result::Document;
use crate::util::size;
use crate::workload::axis::Axis;
use serde_json::Value;
use std::collections::BTreeMap;

/// A setting that is no option and no axis, or several whose fields begin alike.
struct NamedSetting {
    field: &'static str,
    name: &'static str,
    matters: &'static str,
    shown: ShownAs,
}

/// How a value is shown.
#[derive(Clone, Copy)]
enum ShownAs {
    Text,
    Bytes,
    Nanoseconds,
    OnOff,
}

impl NamedSetting {
    const fn new(field: &'static str, name: &'static str) -> Self {
        Self { field, name, matters: "", shown: ShownAs::Text }
    }

    const fn shown(self, shown: ShownAs) -> Self {
        Self { shown, ..self }
    }

    const fn matters(self, matters: &'static str) -> Self {
        Self { matters, ..self }
    }
}

/// The compiler of the kernel, which old documents do not contain.
pub(super) const COMPILER: &str = "kernel.compiler";

/// All words of the emulator's command line.
pub(super) const EMULATOR_ARGUMENTS: &str = "environment.emulator.arguments";

/// The model among them.
pub(super) const EMULATED_CPU: &str = "environment.emulator.cpu";

/// The state of each vulnerability of the CPU.
pub(super) const MITIGATIONS: &str = "environment.mitigations";

/// The state of a vulnerability that the CPU does not have.
pub(super) const NOT_AFFECTED: &str = "Not affected";

/// A text of several facts: which build of the kernel it is, and when it was built.
const BUILD: &str = "kernel.version";

/// All of them. The longest field that fits applies.
const SETTINGS: &[NamedSetting] = &[
    NamedSetting::new("version", "pipeprof")
        .matters("another build of pipeprof has other code in its workload: compare runs of one build"),
    NamedSetting::new("kernel.release", "kernel"),
    NamedSetting::new(BUILD, "kernel package"),
    NamedSetting::new("kernel.command_line", "kernel arguments"),
    NamedSetting::new(COMPILER, "compiler").matters("another compiler generates other code: inlining differs"),
    NamedSetting::new("environment.cpu_model", "CPU"),
    NamedSetting::new("environment.cpus", "CPUs"),
    NamedSetting::new("environment.topology", "CPUs of the processes"),
    NamedSetting::new("environment.memory_bytes", "memory").shown(ShownAs::Bytes),
    NamedSetting::new("environment.transparent_huge_pages", "transparent huge pages"),
    NamedSetting::new("environment.governor", "CPU frequency governor"),
    NamedSetting::new("environment.hypervisor", "hypervisor"),
    NamedSetting::new(MITIGATIONS, "mitigations").matters("costs at kernel entry, exit and indirect calls"),
    NamedSetting::new("environment.emulator.version", "emulator"),
    NamedSetting::new(EMULATOR_ARGUMENTS, "arguments of the emulator"),
    NamedSetting::new(EMULATED_CPU, "emulated CPU").matters("which instructions the kernel and programs use"),
    NamedSetting::new("environment.cpu_flags", "CPU flags").matters("which copy loop the kernel uses"),
    NamedSetting::new("memcg", "memory cgroup")
        .matters("every pipe page is charged to a memory cgroup")
        .shown(ShownAs::OnOff),
    NamedSetting::new("ending.by", "measurement ended by"),
    NamedSetting::new("ending.blocks", "blocks of runs"),
    NamedSetting::new("ending.until", "wanted precision"),
    NamedSetting::new("cycle_model.name", "cycle model"),
    NamedSetting::new("cycle_model.hash", "hash of the cycle model"),
    NamedSetting::new("workload.amount.bytes", "data per window").shown(ShownAs::Bytes),
    NamedSetting::new("workload.amount.calls", "calls per window"),
    NamedSetting::new("workload.amount.duration_ns", "duration of a window").shown(ShownAs::Nanoseconds),
    NamedSetting::new("workload.warmup_bytes", "warm-up").shown(ShownAs::Bytes),
    NamedSetting::new("workload.pin", "pinned to CPUs"),
    NamedSetting::new("workload.verify", "verification").shown(ShownAs::OnOff),
    NamedSetting::new("workload.unsafe_pipe", "pipe larger than one half").shown(ShownAs::OnOff),
];

/// Fields of kernel and environment that are not settings: paths, the state of the machine, what was measured, and what
/// others contain.
const LEFT_OUT: &[&str] = &[
    "kernel.config_source",
    // What kernel.compiler is read from.
    "CONFIG_CC_VERSION_TEXT",
    "kernel.machine",
    "environment.load",
    "environment.steal",
    "environment.others",
    "ending.width",
    // What the model's name and hash stand for.
    "cycle_model.weights",
    "cycle_model.guesses",
];

/// Why a setting matters to pipes; empty if unknown, and for options.
pub fn matters(what: &str) -> &'static str {
    axis(what).map(|axis| axis.matters).or_else(|| Some(named(what)?.matters)).unwrap_or_default()
}

/// What people call the settings of which `what` is one: `mitigations`.
pub fn family(what: &str) -> String {
    named(what).filter(|_| axis(what).is_none()).map_or_else(|| name(what), |setting| setting.name.to_owned())
}

/// What people call the setting of the field `what`.
pub fn name(what: &str) -> String {
    let words = |text: &str| text.trim_start_matches('.').replace(['.', '_', '-'], " ");
    match (axis(what), named(what)) {
        _ if what.starts_with("CONFIG_") => what.to_owned(),
        (Some(axis), _) => words(axis.name),
        (None, Some(setting)) if setting.field == what => setting.name.to_owned(),
        (None, Some(setting)) => format!("{}: {}", setting.name, words(&what[setting.field.len()..])),
        (None, None) => words(what),
    }
}

/// The `value` of the setting `what` as people write it. What is no value of it is returned as it is.
pub fn shown(what: &str, value: &str) -> String {
    if let Some(axis) = axis(what) {
        return axis.parse(value).map_or_else(|_| value.to_owned(), |value| axis.format(&value));
    }
    let number = || value.parse::<u64>().ok();
    let text = match named(what).map_or(ShownAs::Text, |setting| setting.shown) {
        ShownAs::Text => None,
        ShownAs::Bytes => number().map(size::format),
        ShownAs::Nanoseconds => number().map(|ns| number::time(ns as f64 / 1e9)),
        ShownAs::OnOff => value.parse().ok().map(|on: bool| if on { "on" } else { "off" }.to_owned()),
    };
    text.unwrap_or_else(|| value.to_owned())
}

fn named(what: &str) -> Option<&'static NamedSetting> {
    let fits = |setting: &&NamedSetting| {
        what.strip_prefix(setting.field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    SETTINGS.iter().filter(fits).max_by_key(|setting| setting.field.len())
}

/// The workload axis of the setting `what`.
pub(super) fn axis(what: &str) -> Option<&'static Axis> {
    what.strip_prefix("workload.").and_then(Axis::of_field)
}

/// The settings of a run by field. The other fields of a document are what was measured.
pub(super) fn of(document: &Document) -> BTreeMap<String, String> {
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
    if let Some(emulator) = &environment.emulator {
        flat.extend(emulator.cpu().map(|cpu| (EMULATED_CPU.to_owned(), cpu.to_owned())));
        // What a kernel leaves free of the memory that the emulator's arguments give it.
        flat.remove("environment.memory_bytes");
    }
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
                    "kernel.config" => Some(config::present_name(field))
                        .filter(|name| !fields.contains_key(*name))
                        .unwrap_or(field)
                        .to_owned(),
                    _ => format!("{name}.{field}"),
                };
                flatten(&long, value, flat);
            }
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            let items = if name.ends_with("emulator.arguments") { without_kernel(items) } else { items };
            flat.insert(name.to_owned(), items.join(" "));
        }
        Value::Null => {}
        other => {
            let text = plain(other);
            let text = match name {
                COMPILER => compiler_name(&text),
                BUILD => package(&text),
                _ if name.starts_with(MITIGATIONS) => affected(&text),
                _ => text,
            };
            // Nothing is left of a build counter.
            if name != BUILD || !text.is_empty() {
                flat.insert(name.to_owned(), text);
            }
        }
    }
}

/// The emulator's arguments without the kernel's files and arguments, which other settings contain.
fn without_kernel(arguments: Vec<String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if ["-kernel", "-initrd", "-append"].contains(&&*argument) {
            arguments.next();
        } else {
            kept.push(argument);
        }
    }
    kept
}

/// The distribution's package in `uname -v`: `Debian 6.1.192-2 (2026-11-16)` of `#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2
/// (2026-11-16)`; empty if there is none. How often a tree was built, and when, is no setting, and the other words are
/// options.
fn package(version: &str) -> String {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let counter =
        |word: &str| word.strip_prefix('#').is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
    let words = version.split_whitespace().take_while(|word| !DAYS.contains(word) && !word.starts_with('@'));
    let words = words.filter(|word| !counter(word) && *word != "SMP" && !word.starts_with("PREEMPT"));
    words.collect::<Vec<_>>().join(" ")
}

/// The state of a vulnerability without the variants that the CPU does not have: a newer kernel knows more of these.
fn affected(state: &str) -> String {
    let parts: Vec<&str> = state.split("; ").filter(|part| !part.ends_with(NOT_AFFECTED)).collect();
    if parts.is_empty() { NOT_AFFECTED.to_owned() } else { parts.join("; ") }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{EndedBy, Ending};
    use crate::kernel::environment::{Emulator, Environment};
    use crate::profile::CycleModel;
    use crate::result::{KernelInfo, MeasuredTarget};
    use crate::workload::Spec;
    use crate::workload::spec::{Amount, Pin};

    fn document(amount: Amount) -> Document {
        let words = |text: &str| Some(text.to_owned());
        Document {
            version: "0".to_owned(),
            kernel: KernelInfo {
                version: "#1 SMP Debian 6.1.192-2 (2026-11-16)".to_owned(),
                compiler: "gcc".to_owned(),
                config: [("CONFIG_PREEMPT".to_owned(), "y".to_owned())].into(),
                ..KernelInfo::default()
            },
            environment: Environment {
                cpu_model: words("x"),
                topology: words("one cache"),
                memory_bytes: Some(1 << 30),
                transparent_huge_pages: words("always"),
                governor: words("powersave"),
                hypervisor: words("KVM"),
                mitigations: [("spectre_v2".to_owned(), "Mitigation: Retpolines".to_owned())].into(),
                emulator: None,
                ..Environment::default()
            },
            memcg: Some(true),
            ending: Some(Ending { by: EndedBy::Until, blocks: 20, width: Some(0.01), until: Some(0.02) }),
            cycle_model: CycleModel::standard().ok(),
            target: MeasuredTarget::Pair {
                workload: Spec {
                    amount,
                    pin: Pin::Cpus { writer: 0, reader: 1 },
                    pipe_size: Some(4096),
                    reader_buffer_size: Some(4096),
                    source: Some("memory".into()),
                    extra_call_every: Some(4),
                    unsafe_pipe: true,
                    ..Spec::default()
                },
            },
            ..Document::default()
        }
    }

    #[test]
    fn every_setting_has_a_name_that_is_no_field() {
        let guest = Document {
            environment: Environment { emulator: Some(Emulator::default()), ..Environment::default() },
            ..Document::default()
        };
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        let documents = [Amount::Bytes(1), Amount::Calls(1), Amount::DurationNs(1)].map(document);
        for field in documents.iter().chain([&guest]).flat_map(|document| of(document).into_keys()) {
            let known = field.starts_with("CONFIG_") || axis(&field).is_some() || named(&field).is_some();
            assert!(known, "{field} has no row");
            let name = name(&field);
            assert!(name.starts_with("CONFIG_") || !name.contains(['.', '_']), "{field}: {name}");
            let before = names.insert(name.clone(), field.clone());
            assert!(before.is_none_or(|before| before == field), "{name} is the name of two settings");
        }
        assert_eq!(names.get("data per window").map(String::as_str), Some("workload.amount.bytes"));
        assert_eq!(
            names.get("mitigations: spectre v2").map(String::as_str),
            Some("environment.mitigations.spectre_v2")
        );
        assert!(
            ["memory", "arguments of the emulator", "warm-up", "buffer size"]
                .iter()
                .all(|name| names.contains_key(*name))
        );
    }

    #[test]
    fn values_are_shown_as_people_write_them() {
        for (what, value, text) in [
            ("workload.amount.bytes", "16777216", "16M"),
            ("workload.amount.duration_ns", "300000000", "0.30 s"),
            ("workload.buffer_size", "262144", "256K"),
            ("workload.buffer_size", "-", "-"),
            ("memcg", "false", "off"),
            ("kernel.release", "6.1.0-56", "6.1.0-56"),
        ] {
            assert_eq!(shown(what, value), text, "{what}");
        }
    }

    #[test]
    fn what_is_no_difference_is_no_setting() {
        for (version, text) in [
            ("#1 SMP @0", ""),
            ("#12 SMP PREEMPT_DYNAMIC Thu Nov 26 12:12:36 UTC 2026", ""),
            ("#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)", "Debian 6.1.192-2 (2026-11-16)"),
            ("#31~22.04.1-Ubuntu SMP Tue Nov 3 10:10:10 UTC 2026", "#31~22.04.1-Ubuntu"),
        ] {
            assert_eq!(package(version), text, "{version}");
        }
        assert_eq!(affected("Not affected"), "Not affected");
        assert_eq!(
            affected("Mitigation: Retpolines; STIBP: disabled; BHI: Not affected"),
            "Mitigation: Retpolines; STIBP: disabled"
        );
        let mut guest = document(Amount::Bytes(1));
        guest.environment.emulator = Some(Emulator {
            version: String::new(),
            arguments: ["-m", "1024M", "-cpu", "qemu64", "-append", "quiet", "-kernel", "x"].map(str::to_owned).into(),
        });
        let settings = of(&guest);
        assert_eq!(settings[EMULATOR_ARGUMENTS], "-m 1024M -cpu qemu64");
        assert_eq!(settings[EMULATED_CPU], "qemu64");
        assert!(!settings.contains_key("environment.memory_bytes"), "{settings:?}");
    }
}
