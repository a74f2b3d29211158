//! Interruption: SIGINT, SIGTERM and SIGHUP set one flag that every wait checks.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The last interrupting signal; 0 before one arrives.
static SIGNAL: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// Let SIGINT, SIGTERM and SIGHUP set the flag that [`happened`] reads. A second signal ends the process at once.
/// Idempotent.
pub fn install() -> std::io::Result<()> {
    if FLAG.get().is_some() {
        return Ok(());
    }
    let flag = FLAG.get_or_init(|| Arc::new(AtomicBool::new(false)));
    let last = SIGNAL.get_or_init(|| Arc::new(AtomicUsize::new(0)));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(flag))?;
        signal_hook::flag::register_usize(signal, Arc::clone(last), usize::try_from(signal).unwrap_or_default())?;
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

thread_local! {
    /// What else interrupts this thread.
    static OWN: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Whether an interrupting signal has arrived, or this thread's work is not wanted any more ([`unless`]).
pub fn happened() -> bool {
    let is_set = |flag: &Arc<AtomicBool>| flag.load(Ordering::Relaxed);
    FLAG.get().is_some_and(is_set) || OWN.with_borrow(|own| own.as_ref().is_some_and(is_set))
}

/// Do `work` on this thread, which is interrupted once `unwanted` is set.
pub fn unless<T>(unwanted: &Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    let before = OWN.replace(Some(Arc::clone(unwanted)));
    let done = work();
    OWN.set(before);
    done
}

/// The exit code of a command that a signal interrupted: 128 and the signal's number, as of a process that the signal
/// ends. `None` if no signal has arrived.
pub fn exit_code() -> Option<u8> {
    let signal = SIGNAL.get()?.load(Ordering::Relaxed);
    if signal == 0 { None } else { u8::try_from(128 + signal).ok() }
}

/// `Err` once an interrupting signal has arrived.
pub fn check() -> Result<(), Cancelled> {
    if happened() { Err(Cancelled) } else { Ok(()) }
}

/// The error after an interrupting signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Cancelled;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwanted_work_is_interrupted_on_its_thread_only() {
        let unwanted = Arc::new(AtomicBool::new(false));
        unless(&unwanted, || {
            assert!(check().is_ok());
            unwanted.store(true, Ordering::Relaxed);
            assert!(check().is_err() && std::thread::spawn(happened).join().is_ok_and(|other| !other));
        });
        assert!(check().is_ok());
    }
}
