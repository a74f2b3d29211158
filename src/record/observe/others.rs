//! The programs outside a recording that used the CPUs meanwhile.

use crate::kernel::environment::CpuTime;
use crate::result::BusyProgram;
use crate::util::process_stat;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Programs that used less of the CPUs' time are not stored.
const LEAST: f64 = 0.01;

/// Of fewer clock ticks of all CPUs together, no shares are known.
const FEWEST_TICKS: u64 = 20;

/// What all processes have used so far.
pub(crate) struct ProgramTimes {
    /// Clock ticks of all CPUs.
    total: Option<u64>,
    /// Clock ticks by process id and start.
    processes: HashMap<(u32, u64), (String, u64)>,
}

impl ProgramTimes {
    pub(crate) fn now() -> Self {
        let processes = process_stat::all().filter(|(_, stat)| !['Z', 'X'].contains(&stat.state));
        let processes = processes.map(|(pid, stat)| ((pid, stat.started), (stat.name, stat.ticks)));
        Self { total: CpuTime::now().map(|time| time.total), processes: processes.collect() }
    }

    /// What has been used since then by processes that still run, other than this one and those that are `recorded`:
    /// programs of one name together, the largest part first. A process that only waits for its parent does not run.
    pub(crate) fn others_since(&self, recorded: &HashSet<u32>) -> Vec<BusyProgram> {
        let now = Self::now();
        let total = self.total.zip(now.total).map(|(before, after)| after.saturating_sub(before));
        let Some(total) = total.filter(|total| *total >= FEWEST_TICKS) else { return Vec::new() };
        let mut used: BTreeMap<String, u64> = BTreeMap::new();
        for (key, (name, ticks)) in now.processes {
            if key.0 != std::process::id() && !recorded.contains(&key.0) {
                let before = self.processes.get(&key).map_or(0, |(_, ticks)| *ticks);
                *used.entry(name).or_default() += ticks.saturating_sub(before);
            }
        }
        // Ticks of processes and of CPUs are not read at the same moment.
        let total = total.max(used.values().sum());
        let share = |(name, ticks)| BusyProgram { name, share: ticks as f64 / total as f64 };
        let mut programs: Vec<BusyProgram> =
            used.into_iter().map(share).filter(|program| program.share >= LEAST).collect();
        programs.sort_by(|a, b| b.share.total_cmp(&a.share));
        programs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_program_that_computes_is_named_and_recorded_ones_are_not() {
        let before = ProgramTimes::now();
        let mut busy = Command::new("sha256sum").arg("/dev/zero").stdout(Stdio::null()).spawn().unwrap();
        let id = busy.id();
        // Until it has used enough, however long that takes on a busy machine.
        let used = |total: u64| {
            let ticks = process_stat::ProcessStat::of(id).map_or(0, |stat| stat.ticks);
            total >= FEWEST_TICKS && ticks as f64 > 2.0 * LEAST * total as f64 && ticks > 5
        };
        while !used(CpuTime::now().unwrap().total - before.total.unwrap()) {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let found = before.others_since(&HashSet::new());
        let recorded = before.others_since(&[id].into());
        busy.kill().unwrap();
        busy.wait().unwrap();
        let named = |programs: &[BusyProgram]| programs.iter().any(|program| program.name == "sha256sum");
        assert!(named(&found) && !named(&recorded), "{found:?} {recorded:?}");
    }
}
