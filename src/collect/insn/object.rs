//! The plugin's embedded shared objects, and the choice of the one that fits a QEMU.

use super::raw::{MEMORY, MOST};
use crate::result::UserContexts;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};

/// One object per plugin interface whose declarations differ (`plugin/qemu_api.h`).
const OBJECTS: [(u32, &[u8]); 5] = [
    (1, include_bytes!(concat!(env!("OUT_DIR"), "/pipeprof-insn-1.so"))),
    (2, include_bytes!(concat!(env!("OUT_DIR"), "/pipeprof-insn-2.so"))),
    (3, include_bytes!(concat!(env!("OUT_DIR"), "/pipeprof-insn-3.so"))),
    (6, include_bytes!(concat!(env!("OUT_DIR"), "/pipeprof-insn-6.so"))),
    (7, include_bytes!(concat!(env!("OUT_DIR"), "/pipeprof-insn-7.so"))),
];

/// The plugin's file for one guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// The shared object.
    pub so: PathBuf,
    /// Its arguments.
    pub args: Vec<(String, String)>,
    /// The name of the files that it writes, without their window's number.
    out: PathBuf,
}

/// The plugin interface for a QEMU of this version (QEMU: include/qemu/qemu-plugin.h of each release).
pub(crate) fn interface(version: (u32, u32)) -> Result<u32> {
    let (major, minor) = version;
    if version < (7, 2) {
        bail!("--collect insn requires QEMU 7.2 or newer, found {major}.{minor}; set PIPEPROF_QEMU to another QEMU");
    }
    Ok(match version {
        (..9, _) => 1,
        (9, 0) => 2,
        (..11, _) => 3,
        (11, 0) => 6,
        _ => 7,
    })
}

impl Plugin {
    /// Write the plugin for a QEMU of `version` into `folder`, to count `windows` windows, one after the other.
    /// `threads` has, for each process, the number of threads that begin and end a window.
    pub fn write(folder: &Path, version: (u32, u32), threads: &[u32], windows: u32) -> Result<Self> {
        ensure!(
            (1..=MOST).contains(&threads.len()),
            "--collect insn: counts 1 to {MOST} processes, not {}",
            threads.len()
        );
        let interface = interface(version)?;
        let Some((_, object)) = OBJECTS.iter().find(|(of, _)| *of == interface) else {
            bail!(
                "--collect insn: this build has no plugin for QEMU's plugin interface {interface}; set PIPEPROF_QEMU to another QEMU"
            );
        };
        let so = folder.join(format!("pipeprof-insn-{interface}.so"));
        std::fs::write(&so, object).with_context(|| {
            format!("cannot write {}: free some space, or set TMPDIR to another folder", so.display())
        })?;
        let out = folder.join("instructions");
        let args = vec![
            ("out".to_owned(), out.display().to_string()),
            ("windows".to_owned(), windows.to_string()),
            ("processes".to_owned(), threads.iter().map(u32::to_string).collect::<Vec<_>>().join(":")),
            ("memory".to_owned(), MEMORY.to_string()),
        ];
        Ok(Self { so, args, out })
    }

    /// For programs that are not known. Also follow what the processes fork, if the addresses of the kernel's copy_thread are
    /// given. `exec`: that of its function that replaces a program.
    #[must_use]
    pub fn for_programs(self, births: Option<std::ops::Range<u64>>, exec: Option<u64>, contexts: UserContexts) -> Self {
        let mut plugin = self.with_births(births);
        let UserContexts { depth, number } = contexts;
        plugin.args.push(("users".to_owned(), format!("{depth}:{number}")));
        plugin.args.extend(exec.map(|address| ("execs".to_owned(), format!("{address:x}"))));
        plugin
    }

    /// Also follow what the processes fork, at these addresses of the kernel's copy_thread, in an earlier window of each, which
    /// is not counted.
    pub fn prepared(self, births: Option<std::ops::Range<u64>>) -> Self {
        let mut plugin = self.with_births(births);
        plugin.args.push(("prepared".to_owned(), "yes".to_owned()));
        plugin
    }

    fn with_births(mut self, births: Option<std::ops::Range<u64>>) -> Self {
        self.args.extend(births.map(|range| ("births".to_owned(), format!("{:x}-{:x}", range.start, range.end))));
        self
    }

    /// Also weigh what the parts of a window execute, for a workload that repeats the same work: the system calls of the
    /// first process divide the window into parts.
    pub fn tapered(mut self) -> Self {
        self.args.push(("counts".to_owned(), "tapered".to_owned()));
        self
    }

    /// The file that it writes when window `number` ends, counted from 0.
    pub fn out(&self, number: u32) -> PathBuf {
        let mut name = self.out.clone().into_os_string();
        name.push(format!(".{}", number + 1));
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_qemu_gets_the_interface_it_has() {
        let expected = [
            ((7, 2), 1),
            ((8, 2), 1),
            ((9, 0), 2),
            ((9, 2), 3),
            ((10, 0), 3),
            ((10, 2), 3),
            ((11, 0), 6),
            ((11, 1), 7),
            ((12, 0), 7),
        ];
        for (version, expected) in expected {
            assert_eq!(interface(version).unwrap(), expected, "{version:?}");
            assert!(OBJECTS.iter().any(|(of, _)| *of == expected), "{expected}");
        }
        assert!(interface((7, 1)).unwrap_err().to_string().contains("7.2 or newer"));
    }

    #[test]
    fn the_objects_are_shared_objects_of_their_interface() {
        for (interface, object) in OBJECTS {
            assert!(object.starts_with(b"\x7fELF"));
            let has = |name: &[u8]| object.windows(name.len()).any(|window| window == name);
            assert!(has(b"qemu_plugin_install\0"), "{interface}");
            assert_eq!(has(b"qemu_plugin_register_vcpu_insn_exec_inline\0"), interface == 1);
            assert_eq!(has(b"qemu_plugin_scoreboard_new\0"), interface >= 2);
            assert_eq!(has(b"qemu_plugin_read_register\0"), interface >= 2);
        }
    }
}
