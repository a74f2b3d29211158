//! Guests that run at the same time. What is counted in one does not depend on the others.

use crate::util::limits::one_per_cpu;
use crate::util::memory;
use anyhow::{Result, anyhow};
use std::sync::mpsc::{Sender, channel};
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

/// The same, and `take` on this thread with each result, while others still run.
///
/// # Errors
/// The first of those of `each` and `take`; what has begun then is waited for, and nothing more begins.
pub fn run_and<I: Sync, T: Send, U>(
    all: &[I],
    jobs: usize,
    each: impl Fn(&I) -> Result<T> + Sync,
    mut take: impl FnMut(&I, T) -> Result<U>,
) -> Result<Vec<U>> {
    let queue = Mutex::new(all.iter().enumerate());
    // The next one, and nothing after a failure.
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let stop = || queue.lock().unwrap_or_else(PoisonError::into_inner).by_ref().for_each(drop);
    let (sender, results) = channel();
    let work = |sender: Sender<(usize, Result<T>)>| {
        while let Some((number, one)) = next() {
            let result = each(one);
            if result.is_err() {
                stop();
            }
            // It is taken as long as this runs.
            drop(sender.send((number, result)));
        }
    };
    let mut done: Vec<(usize, Result<U>)> = Vec::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.clamp(1, all.len().max(1)))
            .map(|_| {
                let sender = sender.clone();
                scope.spawn(|| work(sender))
            })
            .collect();
        drop(sender);
        for (number, result) in results {
            let taken = result.and_then(|result| take(&all[number], result));
            if taken.is_err() {
                stop();
            }
            done.push((number, taken));
        }
        let panicked = workers.into_iter().filter_map(|worker| worker.join().err());
        done.extend(panicked.map(|_| (0, Err(anyhow!("internal error: a thread panicked")))));
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
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
        let panicked = run(&[0], 1, |_| -> Result<()> { panic!("a test of panics") });
        assert_eq!(panicked.unwrap_err().to_string(), "internal error: a thread panicked");
    }
}
