//! What kernel developers published about these kernels, counted: each change in the functions and numbers of its source.

use crate::common::{guest, request, spec};
use pipeprof::profile::ProcessName;
use pipeprof::result::{Collector, LockKind, LockUse, Outcome};
use pipeprof::roles::RoleId;
use pipeprof::run::exact;
use pipeprof::workload::Spec;

fn count(series: &str, workload: Spec) -> Outcome {
    exact::execute(&request(workload, vec![Collector::Insn]), &guest(series), None).expect("an exact profile")
}

/// Per 256 KiB that the writer moved.
fn per_256k(outcome: &Outcome, count: u64) -> f64 {
    count as f64 * f64::from(256 << 10) / outcome.document.processes.of(ProcessName::WRITER).bytes as f64
}

fn entered(outcome: &Outcome, process: ProcessName, role: RoleId) -> u64 {
    let shares = outcome.document.attribution.of(process).iter().filter(|share| share.role == role);
    shares.filter_map(|share| share.entered).sum()
}

fn locks(outcome: &Outcome, process: ProcessName, lock: LockKind) -> Option<&LockUse> {
    outcome.document.locks.iter().find(|one| one.process == process && one.lock == lock)
}

/// Page allocations per call of the writer: before the mutex, and under it.
fn allocations(outcome: &Outcome) -> (f64, f64) {
    let mutex = locks(outcome, ProcessName::WRITER, LockKind::Mutex).expect("the writer takes the mutex");
    assert_eq!(mutex.unknown, 0, "all code of the pipe was followed");
    let calls = mutex.calls.iter().find(|calls| calls.function.starts_with("get_page_from_freelist")).unwrap();
    let per_call = |count: u64| count as f64 / outcome.document.processes.of(ProcessName::WRITER).calls as f64;
    (per_call(calls.all - calls.held), per_call(calls.held))
}

#[test]
#[ignore = "boots guests: make test"]
fn what_was_published_about_pipes_is_counted() {
    let [old, middle, new] = ["6.1", "6.12", "7.2"].map(|series| count(series, spec("write", 60)));

    // dfaabf916b1c "fs/pipe: remove unnecessary spinlock from pipe_write()" and 478dbf121767 "fs/pipe: use spinlock in
    // pipe_read() only if there is a watch_queue" (Max Kellermann, Linux 6.7): one for each page, 64 in 256 KiB.
    let taken = |outcome: &Outcome, process| {
        locks(outcome, process, LockKind::Spinlock).map_or(0.0, |lock| per_256k(outcome, lock.taken))
    };
    for process in [ProcessName::WRITER, ProcessName::READER] {
        let gone = taken(&old, process) - taken(&middle, process);
        assert!((gone - 64.0).abs() < 1.0, "{process}: {} then {}", taken(&old, process), taken(&middle, process));
    }

    // "pipe: don't update {a,c,m}time for anonymous pipes" (Oleg Nesterov, Linux 6.15).
    let stamps = |outcome: &Outcome| {
        let shares = outcome.document.attribution.of_target();
        shares.filter(|share| share.role == RoleId::Timestamps).map(|share| share.weight).sum::<u64>()
    };
    assert!(stamps(&old) > 0 && stamps(&middle) > 0);
    assert_eq!(stamps(&new), 0);

    // "fs/pipe: pre-allocate pages outside pipe->mutex in anon_pipe_write" (Breno Leitao, Linux 7.2): at most 8 pages, and
    // no more than the write needs.
    assert_eq!(allocations(&middle).0, 0.0);
    assert_eq!(allocations(&new).0, 8.0);
    assert!(allocations(&new).1 < allocations(&middle).1);
    let small = count("7.2", Spec { buffer_size: 16 << 10, ..spec("write", 240) });
    assert_eq!(allocations(&small).0, 4.0);

    // "pipe: cache 2 pages instead of 1" (Mateusz Guzik, Linux 6.15). A pipe has 16 pages, so it is filled four times in
    // 256 KiB, and 4 or 8 of 64 pages come from that cache: 24,000 and 22,400 in 100 MiB are allocated.
    let pages = |outcome: &Outcome| per_256k(outcome, entered(outcome, ProcessName::WRITER, RoleId::PageAlloc));
    assert_eq!([pages(&old), pages(&middle), pages(&new)].map(f64::round), [60.0, 60.0, 56.0]);
    for outcome in [&old, &middle, &new] {
        assert_eq!(per_256k(outcome, entered(outcome, ProcessName::WRITER, RoleId::CopyIn)), 64.0);
    }

    // "pipe_read: don't wake up the writer if the pipe is still full" (Oleg Nesterov, Linux 6.14). A reader of 512 bytes
    // empties a page in 8 calls. Each that found the pipe full woke up the writer, now only one that frees a page does.
    let wake_ups_per_page = |series| {
        let outcome = count(series, Spec { reader_buffer_size: Some(512), ..spec("write", 16) });
        let functions = outcome.document.functions.iter();
        let woken = functions.filter(|row| row.process == ProcessName::READER && row.symbol == "__wake_up_sync_key");
        per_256k(&outcome, woken.map(|row| row.calls).sum()) / 64.0
    };
    let [before, after] = ["6.12", "7.2"].map(wake_ups_per_page);
    assert!(before > 1.5 && after > 0.0 && after <= 1.0, "wake-ups per page: {before}, then {after}");
}
