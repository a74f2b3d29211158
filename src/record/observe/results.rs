//! How the system calls of a guest's processes end (bpf/results.bpf.c): errors and bytes of all of them, by process.

use crate::collect::attach;
use crate::collect::bpf::shared::{EndedCall, Results};
use crate::collect::bpf::{Object, ToLoad};
use crate::profile::ProcessName;
use crate::record::observe::call_names::{call_name, returns_bytes};
use crate::result::{Document, SystemCallCount};
use anyhow::Result;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

const RESULT: &str = "pp_result";

/// The attached program. Dropping this detaches it.
pub(crate) struct CallResults {
    object: Object,
    _attached: OwnedFd,
}

impl CallResults {
    pub(super) fn to_load() -> ToLoad {
        ToLoad::results(vec![RESULT])
    }

    /// # Errors
    /// When the kernel refuses it.
    pub(crate) fn start() -> Result<Self> {
        let object = Self::to_load().load()?;
        let attached = attach::raw_tracepoint(object.program(RESULT)?, "sys_exit")?;
        Ok(Self { object, _attached: attached })
    }

    /// Add them to `document`, to whose processes they belong. `names`: of each stage.
    ///
    /// # Errors
    /// When the map cannot be read.
    pub(crate) fn add(self, document: &mut Document, names: &[ProcessName]) -> Result<()> {
        let entries: Vec<(EndedCall, Results)> = self.object.entries("results")?;
        if self.object.element::<u64>("lost", 0)? == 0 {
            document.system_calls = of_stages(&entries, document, names);
        }
        Ok(())
    }
}

/// The calls of each stage, without their numbers: those of counted runs are exact.
fn of_stages(entries: &[(EndedCall, Results)], document: &Document, names: &[ProcessName]) -> Vec<SystemCallCount> {
    let mut stages: BTreeMap<u32, ProcessName> = BTreeMap::new();
    for process in &document.recorded {
        let Some(name) = names.get(process.stage as usize) else { continue };
        stages.extend(process.pids.iter().map(|pid| (*pid, *name)));
    }
    let mut found: BTreeMap<(ProcessName, &str), SystemCallCount> = BTreeMap::new();
    for (EndedCall { tgid, number }, results) in entries {
        let Some((stage, name)) = stages.get(tgid).zip(call_name(*number)) else { continue };
        let none = || SystemCallCount::none(*stage, name);
        let sum = found.entry((*stage, name)).or_insert_with(none);
        *sum.errors.get_or_insert_default() += results.errors;
        if returns_bytes(name) {
            *sum.bytes.get_or_insert_default() += results.returned;
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::RecordedProcess;

    #[test]
    fn calls_of_all_processes_of_a_stage_add_up() {
        let process =
            |stage, pids: &[u32]| RecordedProcess { stage, pids: pids.to_vec(), ..RecordedProcess::default() };
        let document = Document { recorded: vec![process(0, &[7, 8]), process(1, &[9])], ..Document::default() };
        let entry = |tgid, number: libc::c_long, errors, returned| {
            let number = u32::try_from(number).unwrap();
            (EndedCall { tgid, number }, Results { calls: 1, errors, returned })
        };
        let entries = [
            entry(7, libc::SYS_read, 1, 10),
            entry(8, libc::SYS_read, 2, 20),
            entry(9, libc::SYS_lseek, 0, 5),
            entry(1, libc::SYS_read, 9, 9),
        ];
        let names = ["stage1-a", "stage2-b"].map(ProcessName::new);
        let calls = of_stages(&entries, &document, &names);
        let shown: Vec<_> = calls.iter().map(|call| (&call.name[..], call.errors, call.bytes)).collect();
        assert_eq!(shown, [("read", Some(3), Some(30)), ("lseek", Some(0), None)]);
    }
}
