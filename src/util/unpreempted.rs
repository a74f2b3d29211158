//! Keep the current thread on its CPU for a moment, whatever ordinary threads wait for one.

/// While it lives, the thread that made it has the lowest real-time priority (sched(7), `SCHED_FIFO`), if this process may
/// have one (`CAP_SYS_NICE`). Otherwise, it changes nothing.
#[derive(Debug)]
#[must_use]
pub struct Unpreempted {
    /// The policy to go back to.
    before: Option<libc::c_int>,
}

impl Unpreempted {
    pub fn begin() -> Self {
        // SAFETY: it has no pointers, and 0 is the current thread.
        let policy = unsafe { libc::sched_getscheduler(0) };
        let ordinary = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE].contains(&policy);
        let begun = ordinary && set(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1);
        Self { before: begun.then_some(policy) }
    }
}

impl Drop for Unpreempted {
    fn drop(&mut self) {
        if let Some(policy) = self.before {
            set(policy, 0);
        }
    }
}

/// Of the current thread. Whether the kernel did it.
fn set(policy: libc::c_int, priority: libc::c_int) -> bool {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the pointer is valid for the call, which copies what it points at.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> libc::c_int {
        // SAFETY: as above.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn the_thread_has_its_own_policy_again() {
        let before = policy();
        let kept = Unpreempted::begin();
        assert_eq!(kept.before.is_some(), policy() != before, "with the right, another one");
        drop(kept);
        assert_eq!(policy(), before);
    }
}
