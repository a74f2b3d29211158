//! The pipe's mutex. Spin locks have no role: they are attributed to the caller, as part of what they protect.

use super::{Pattern::*, Role, RoleId, Within};

pub(crate) const ROLES: &[Role] = &[
    Role {
        id: RoleId::Mutex,
        title: "mutex, not contended",
        doing: "taking a free mutex",
        about: "Taking and releasing the pipe's mutex without contention.",
        colour: "#dcd0f0",
        article_name: "mutex_unlock",
        frames: &[
            Exact("mutex_lock"),
            Exact("mutex_unlock"),
            Exact("mutex_trylock"),
            Exact("mutex_lock_interruptible"),
            Exact("mutex_lock_killable"),
            Exact("pipe_lock"),
            Exact("pipe_unlock"),
            Exact("pipe_double_lock"),
            Exact("__pipe_lock"),
            Exact("__pipe_unlock"),
        ],
        candidates: &["mutex_lock"],
    },
    Role {
        id: RoleId::MutexSlow,
        title: "mutex slow path",
        doing: "in the mutex's slow path",
        about: "__mutex_lock itself: queueing, and its own trying in a loop; and handing the mutex on when released.",
        colour: "#bda3e3",
        article_name: "__mutex_lock",
        frames: &[
            Exact("__mutex_lock"),
            Exact("__mutex_lock_common"),
            Exact("__mutex_lock_slowpath"),
            Exact("__mutex_lock_interruptible_slowpath"),
            Exact("__mutex_lock_killable_slowpath"),
            Exact("__ww_mutex_lock"),
            Exact("__mutex_unlock_slowpath"),
            Exact("__mutex_add_waiter"),
            Exact("__mutex_remove_waiter"),
            Exact("__mutex_trylock_common"),
        ],
        candidates: &["__mutex_lock", "__mutex_lock_slowpath"],
    },
    Role {
        id: RoleId::MutexSpin,
        title: "mutex spinning",
        doing: "spinning on the pipe's mutex",
        about: "Waiting for the mutex on the CPU while its owner runs.",
        colour: "#a58add",
        article_name: "mutex_spin_on_owner",
        frames: &[
            Exact("mutex_spin_on_owner"),
            Exact("mutex_optimistic_spin"),
            Exact("mutex_can_spin_on_owner"),
            Exact("osq_lock"),
            Exact("osq_unlock"),
            Exact("osq_wait_next"),
        ],
        candidates: &["mutex_spin_on_owner", "osq_lock"],
    },
    Role {
        id: RoleId::MutexSleep,
        title: "mutex sleeping",
        doing: "sleeping on the pipe's mutex",
        about: "Giving up the CPU because the mutex is taken: the scheduler's work inside __mutex_lock.",
        colour: "#c9b8d9",
        article_name: "schedule_preempt_disabled",
        // Attributed by WITHIN below, not by a frame.
        frames: &[],
        candidates: &["schedule_preempt_disabled"],
    },
];

/// The scheduler's work inside the slow path is sleeping on the mutex.
pub(crate) const WITHIN: &[Within] =
    &[Within { role: RoleId::Scheduler, inside: RoleId::MutexSlow, becomes: RoleId::MutexSleep }];
