//! What several processes know by a name: files, locks, folders, and the files of sockets and of process ids.

pub(crate) mod busy_locks;
pub(crate) mod left_socket;
pub(crate) mod lock_folders;
pub(crate) mod lock_polls;
pub(crate) mod lost_socket;
pub(crate) mod names;
pub(crate) mod overwritten;
pub(crate) mod raced;
pub(crate) mod replaced_files;
pub(crate) mod script;
pub(crate) mod stale_pid;
pub(crate) mod stolen_lock;
