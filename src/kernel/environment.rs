//! The properties of this machine that affect the numbers, read from /proc and /sys.

use crate::arch;
use crate::util::{memory, text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The properties of the machine that affect the numbers. Values that cannot be read are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    pub cpu_model: Option<String>,
    pub cpus: u32,
    /// How the two pinned CPUs are related: `one CPU`, `SMT siblings`, `one cache`, `one package`, `two packages`.
    pub topology: Option<String>,
    pub memory_bytes: Option<u64>,
    pub transparent_huge_pages: Option<String>,
    pub governor: Option<String>,
    pub hypervisor: Option<String>,
    /// The value of `mitigations=`, and the state of each vulnerability by name.
    pub mitigations: BTreeMap<String, String>,
    /// 1-minute load average at the start of the run.
    pub load: Option<f64>,
    /// Share of the run's CPU time that the hypervisor gave to other guests (steal), 0 to 1.
    pub steal: Option<f64>,
    /// Share of CPU time that other programs and interrupts used during the run, 0 to 1.
    pub others: Option<f64>,
    /// The emulator, if this is a guest.
    pub emulator: Option<Emulator>,
    /// CPU flags that select the kernel's copy loop: `erms`, `fsrm`, `smap`.
    pub cpu_flags: Vec<String>,
}

/// The emulator that ran a guest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Emulator {
    /// `QEMU emulator version 7.2.22`.
    pub version: String,
    /// Its arguments, without files that change from run to run.
    pub arguments: Vec<String>,
}

impl Emulator {
    /// The model of the emulated CPU: `qemu64`.
    pub fn cpu(&self) -> Option<&str> {
        let mut arguments = self.arguments.iter();
        arguments.find(|word| *word == "-cpu")?;
        arguments.next().map(String::as_str)
    }
}

/// CPU flags that change what the pipe code executes: copy loop, zeroing, protection of user memory.
const FLAGS_THAT_MATTER: &[&str] = &[
    "erms",
    "fsrm",
    "rep_good",
    "smap",
    "smep",
    "pti",
    "ibrs",
    "ibrs_enhanced",
    "pcid",
    "fred",
    "lass",
    "avx2",
    "avx512f",
];

impl Environment {
    /// This machine now. Without what only a run knows: topology of its CPUs, steal, emulator.
    pub fn now() -> Self {
        let trimmed = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let cpu = Cpu::here();
        Self {
            cpu_model: cpu.model,
            cpus: cpu.count,
            topology: None,
            memory_bytes: memory::total(),
            transparent_huge_pages: trimmed("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| selected(&text).map(str::to_owned)),
            governor: trimmed("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            hypervisor: hypervisor(),
            mitigations: mitigations(),
            load: trimmed("/proc/loadavg").and_then(|text| load(&text)),
            steal: None,
            others: None,
            emulator: None,
            cpu_flags: cpu.flags.into_iter().filter(|flag| FLAGS_THAT_MATTER.contains(&flag.as_str())).collect(),
        }
    }
}

/// The first CPU in /proc/cpuinfo, and the number of CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpu {
    pub model: Option<String>,
    pub count: u32,
    pub flags: Vec<String>,
}

impl Cpu {
    /// Those of this machine. What cannot be read is absent.
    pub fn here() -> Self {
        Self::read(&text::read_lossy("/proc/cpuinfo").unwrap_or_default())
    }

    /// Parse the format of /proc/cpuinfo.
    fn read(text: &str) -> Self {
        let mut cpu = Self::default();
        let mut implementer = None;
        let hexadecimal = |text: &str| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            match key.trim() {
                "processor" => cpu.count += 1,
                // Those of AArch64 have only numbers.
                "CPU implementer" => implementer = hexadecimal(value),
                "CPU part" if cpu.model.is_none() => {
                    cpu.model = implementer.zip(hexadecimal(value)).map(|(by, part)| arch::cpu_name(by, part));
                }
                "Features" if cpu.flags.is_empty() => {
                    cpu.flags = value.split_whitespace().map(str::to_owned).collect();
                }
                "model name" if cpu.model.is_none() => cpu.model = Some(value.to_owned()),
                "flags" if cpu.flags.is_empty() => cpu.flags = value.split_whitespace().map(str::to_owned).collect(),
                _ => {}
            }
        }
        cpu
    }
}

/// CPU time of all CPUs since boot, in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    pub total: u64,
    /// Time that the hypervisor gave to other guests.
    pub steal: u64,
    /// Neither idle nor waiting for I/O; includes stolen time.
    pub busy: u64,
    /// Time used by this process and its children that have ended; not from /proc/stat.
    pub own: u64,
}

/// Ticks per second of /proc/stat and times(2): USER_HZ, kernel ABI on x86-64.
fn own_ticks() -> u64 {
    let mut times = libc::tms { tms_utime: 0, tms_stime: 0, tms_cutime: 0, tms_cstime: 0 };
    // SAFETY: the structure outlives the call.
    unsafe { libc::times(&raw mut times) };
    let sum = times.tms_utime + times.tms_stime + times.tms_cutime + times.tms_cstime;
    u64::try_from(sum).unwrap_or(0)
}

impl CpuTime {
    /// The CPU time now; `None` if /proc/stat cannot be read.
    pub fn now() -> Option<Self> {
        let times = Self::read(&std::fs::read_to_string("/proc/stat").ok()?)?;
        Some(Self { own: own_ticks(), ..times })
    }

    /// Parse the format of /proc/stat: `cpu user nice system idle iowait irq softirq steal guest guest_nice`. The
    /// last two are included in the first two.
    fn read(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Option<Vec<u64>> = line.split_whitespace().take(8).map(|field| field.parse().ok()).collect();
        let ticks = ticks?;
        let total = ticks.iter().try_fold(0_u64, |sum, ticks| sum.checked_add(*ticks))?;
        let idle = ticks.get(3)?.checked_add(*ticks.get(4)?)?;
        Some(Self { total, steal: *ticks.get(7)?, busy: total - idle, own: 0 })
    }

    /// The share of CPU time from `earlier` to `self` that was stolen, 0 to 1; `None` if no time passed.
    pub fn steal_since(self, earlier: Self) -> Option<f64> {
        let total = self.total.checked_sub(earlier.total).filter(|total| *total > 0)?;
        Some(self.steal.saturating_sub(earlier.steal) as f64 / total as f64)
    }

    /// The share of CPU time from `earlier` to `self` used by others than this process and its children, 0 to 1;
    /// `None` if no time passed.
    pub fn others_since(self, earlier: Self) -> Option<f64> {
        let total = self.total.checked_sub(earlier.total).filter(|total| *total > 0)?;
        let not_theirs = self.steal.saturating_sub(earlier.steal) + self.own.saturating_sub(earlier.own);
        Some(self.busy.saturating_sub(earlier.busy).saturating_sub(not_theirs) as f64 / total as f64)
    }
}

/// The value in brackets: `madvise` for `always [madvise] never`.
pub(crate) fn selected(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(choice, _)| choice)
}

/// The 1-minute load average in the format of /proc/loadavg.
pub fn load(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok().filter(|load: &f64| load.is_finite())
}

/// The value of `mitigations=` on the command line, and the state of each vulnerability.
fn mitigations() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let command_line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    if let Some(value) = command_line.split_whitespace().rev().find_map(|word| word.strip_prefix("mitigations=")) {
        found.insert("mitigations".to_owned(), value.to_owned());
    }
    let Ok(folder) = std::fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else { return found };
    for entry in folder.flatten() {
        if let (Ok(name), Ok(state)) = (entry.file_name().into_string(), std::fs::read_to_string(entry.path())) {
            found.insert(name, state.trim().to_owned());
        }
    }
    found
}

/// The hypervisor's name.
fn hypervisor() -> Option<String> {
    Some(match arch::hypervisor_signature()?.as_str() {
        "KVMKVMKVM" => "KVM".to_owned(),
        arch::EMULATOR => "QEMU TCG (emulated)".to_owned(),
        "Microsoft Hv" => "Hyper-V".to_owned(),
        "VMwareVMware" => "VMware".to_owned(),
        "XenVMMXenVMM" => "Xen".to_owned(),
        "" => "unknown".to_owned(),
        other => text::clean(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn recorded_files_are_read() {
        let cpu = Cpu::read(
            "processor\t: 0\nmodel name\t: QEMU Virtual CPU version 2.5+\nflags\t\t: fpu erms\n\nprocessor\t: 1\n",
        );
        assert_eq!((cpu.model.as_deref(), cpu.count), (Some("QEMU Virtual CPU version 2.5+"), 2));
        assert_eq!(cpu.flags, ["fpu", "erms"]);
        let early = CpuTime::read("cpu  10 0 10 70 0 0 0 10 0 0\ncpu0 1\n").unwrap();
        let late = CpuTime::read("cpu  20 0 20 130 0 0 0 30 5 0\n").unwrap();
        assert_eq!(early, CpuTime { total: 100, steal: 10, busy: 30, own: 0 });
        assert_eq!(late.steal_since(early), Some(0.2));
        assert_eq!(CpuTime { own: 5, ..late }.others_since(early), Some(0.15), "busy less stolen less own");
        assert_eq!(early.steal_since(early), None);
        assert_eq!(early.steal_since(late), None);
        assert_eq!(selected("always [madvise] never"), Some("madvise"));
        assert_eq!(selected("always madvise never"), None);
        assert_eq!(load("0.52 0.58 0.59 1/467 12345\n"), Some(0.52));
        assert_eq!(load("nan"), None);
    }

    #[test]
    fn this_machine_has_cpus_and_memory() {
        let here = Environment::now();
        assert!(here.cpus > 0 && here.memory_bytes.is_some_and(|bytes| bytes > 0), "{here:?}");
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text: String) {
            let _ = Cpu::read(&text);
            let _ = (CpuTime::read(&text), CpuTime::read(&format!("cpu {text}")));
            let _ = (selected(&text), load(&text));
        }
    }
}
