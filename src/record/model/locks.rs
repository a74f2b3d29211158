//! Who waits for which lock of the kernel: waits at mutexes and semaphores, by the function that wanted the lock.

use crate::collect::stacks::UNKNOWN;
use crate::kernel::symbols::Symbols;
use crate::record::model::off_cpu;
use crate::record::observe::raw::{PrSample, PrWait, PrWho};
use crate::result::LockWait;
use std::collections::{BTreeMap, HashMap};

/// Waits by process and calling function, longest first.
pub(crate) fn by_caller(
    waits: &[(PrSample, PrWait)],
    traces: &HashMap<u64, Vec<u64>>,
    index: &BTreeMap<PrWho, usize>,
    kernel: &Symbols,
) -> Vec<LockWait> {
    let mut sums: BTreeMap<(usize, String), LockWait> = BTreeMap::new();
    for (place, wait) in waits {
        let Some(process) = index.get(&place.who).copied() else { continue };
        let frames = traces.get(&place.trace).map(|trace| off_cpu::frames(trace, kernel)).unwrap_or_default();
        let caller = frames.into_iter().find(|name| !is_lock(name)).unwrap_or_else(|| UNKNOWN.to_owned());
        let sum = sums.entry((process, caller.clone())).or_insert(LockWait { process, caller, count: 0, ns: 0 });
        sum.count += wait.count;
        sum.ns += wait.ns;
    }
    let mut sums: Vec<LockWait> = sums.into_values().collect();
    sums.sort_by_key(|wait| std::cmp::Reverse(wait.ns));
    sums
}

/// Functions of the locks themselves (kernel/locking).
fn is_lock(name: &str) -> bool {
    let starts = [
        "mutex_",
        "__mutex_",
        "ww_mutex_",
        "rt_mutex_",
        "__rt_mutex_",
        "down_",
        "__down_",
        "rwsem_",
        "percpu_",
        "__percpu_",
        // With PREEMPT_RT, threads also sleep at spin locks.
        "rtlock_",
        "rt_spin_",
        "rt_read_",
        "rt_write_",
        "rwbase_",
    ];
    starts.iter().any(|start| name.starts_with(start)) || matches!(name, "down" | "__down" | "_mutex_lock_nest_lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_belong_to_the_caller_of_the_lock() {
        let list = b"0000000000001000 t bpf_prog_1\n0000000000002000 T __mutex_lock.constprop.0\n0000000000003000 T mutex_lock\n\
            0000000000004000 T anon_pipe_write\n0000000000005000 T vfs_write\n";
        let kernel = Symbols::read(&list[..]).unwrap();
        let who = PrWho { stage: 0, tgid: 7, name: [1, 0] };
        let trace = vec![0x1010, 0x2010, 0x3010, 0x4010, 0x5010];
        let wait = |trace, ns| (PrSample { who, trace, user_trace: 0, pid: 0 }, PrWait { count: 2, ns });
        let waits = [wait(9, 500), wait(3, 7)];
        let found = by_caller(&waits, &[(9, trace)].into(), &[(who, 4)].into(), &kernel);
        let expected = |caller: &str, ns| LockWait { process: 4, caller: caller.to_owned(), count: 2, ns };
        assert_eq!(found, [expected("anon_pipe_write", 500), expected(UNKNOWN, 7)]);
    }
}
