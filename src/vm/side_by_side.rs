//! Guests that run at the same time. What is counted in one does not depend on the others.

use crate::util::limits::one_per_cpu;
use crate::util::memory;
use anyhow::{Result, anyhow};
use std::sync::{Mutex, PoisonError};

/// How many guests with so many bytes of memory run at a time: at most one per CPU, and with a fifth of the memory left free.
pub fn most(guest_bytes: u64) -> usize {
    with_room(one_per_cpu(), memory::available(), guest_bytes)
}

fn with_room(cpus: usize, available_bytes: Option<u64>, guest_bytes: u64) -> usize {
    // QEMU's memory without the guest's: translation buffer and tables.
    const OVERHEAD: u64 = 512 << 20;
    let by_memory = available_bytes.map_or(usize::MAX, |available| {
        usize::try_from(available / 5 * 4 / (guest_bytes + OVERHEAD)).unwrap_or(usize::MAX)
    });
    cpus.min(by_memory).max(1)
}

/// `each` of `all`, at most `jobs` at a time, in their order.
///
/// # Errors
/// As [`run_and`].
pub fn run<I: Sync, T: Send>(all: &[I], jobs: usize, each: impl Fn(&I) -> Result<T> + Sync) -> Result<Vec<T>> {
    run_and(all, jobs, each, |_, result| Ok(result))
}

/// The same, and `then` with each result, on a thread of its own, while the next ones run.
///
/// # Errors
/// The first of those of `each` and `then`; what has begun then is waited for, and nothing more begins.
pub fn run_and<I: Sync, T: Send, U: Send>(
    all: &[I],
    jobs: usize,
    each: impl Fn(&I) -> Result<T> + Sync,
    then: impl Fn(&I, T) -> Result<U> + Sync,
) -> Result<Vec<U>> {
    let queue = Mutex::new(all.iter().enumerate());
    // The next one, and nothing after a failure.
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let stop_at = |failed: bool| {
        if failed {
            queue.lock().unwrap_or_else(PoisonError::into_inner).by_ref().for_each(drop);
        }
    };
    let panicked = || vec![(0, Err(anyhow!("internal error: a thread panicked")))];
    let mut done: Vec<(usize, Result<U>)> = std::thread::scope(|scope| {
        let work = || {
            let mut thens = Vec::new();
            while let Some((number, one)) = next() {
                let result = each(one);
                stop_at(result.is_err());
                let then = &then;
                thens.push(scope.spawn(move || {
                    let result = result.and_then(|result| then(one, result));
                    stop_at(result.is_err());
                    vec![(number, result)]
                }));
            }
            thens.into_iter().flat_map(|then| then.join().unwrap_or_else(|_| panicked())).collect::<Vec<_>>()
        };
        let workers: Vec<_> = (0..jobs.clamp(1, all.len().max(1))).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|_| panicked())).collect()
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

/// `each` of `all`, which cannot fail, on all CPUs.
pub fn map<I: Sync, T: Send>(all: &[I], each: impl Fn(&I) -> T + Sync) -> Vec<T> {
    let done = run(all, one_per_cpu(), |one| Ok(each(one)));
    done.unwrap_or_else(|error| std::panic::resume_unwind(Box::new(error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_leave_a_fifth_of_the_memory_free() {
        let gib = 1u64 << 30;
        assert_eq!(with_room(8, Some(64 * gib), gib), 8);
        assert_eq!(with_room(8, Some(4 * gib), gib), 2);
        assert_eq!((with_room(8, Some(gib), gib), with_room(2, None, gib)), (1, 2));
    }

    #[test]
    fn results_are_in_order_and_an_error_is_the_first() {
        assert_eq!(run(&[0, 1, 2, 3, 4], 2, |number| Ok(number * 2)).unwrap(), [0, 2, 4, 6, 8]);
        let begun = std::sync::atomic::AtomicU32::new(0);
        let failed = run(&[0, 1, 2, 3, 4], 1, |number| {
            begun.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if *number == 1 { Err(anyhow!("broken")) } else { Ok(()) }
        });
        assert_eq!((failed.unwrap_err().to_string(), begun.into_inner()), ("broken".to_owned(), 2));
        let refused = run_and(
            &[0, 1],
            2,
            |number| Ok(*number),
            |_, number| {
                if number == 1 { Err(anyhow!("no")) } else { Ok(number) }
            },
        );
        assert_eq!(refused.unwrap_err().to_string(), "no");
        assert_eq!(map(&[1, 2, 3], |number| number + 1), [2, 3, 4]);
        let panicked = run(&[0], 1, |_| -> Result<()> { panic!("a test of panics") });
        assert_eq!(panicked.unwrap_err().to_string(), "internal error: a thread panicked");
    }
}
