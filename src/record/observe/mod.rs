//! See what happens: [`recorder`] attaches the BPF programs and reads their maps ([`raw`], [`counted`]), [`path`] follows what the end of
//! the pipeline waits for, [`looks`] sees who waits for whom ([`look`], [`thread_calls`], [`file_locks`], [`ports`]) and who has files that have
//! lost their names ([`stale_files`]), [`timeline`] keeps what happened when, [`others`] who else used the CPUs, and [`traced`]
//! attaches collectors of runs. [`reason`] names why a thread sleeps, and [`user_pages`] why a pipe is small. In guests, [`results`]
//! has how all system calls end. [`observer`] is what all do that observe: with BPF programs, or without rights [`proc`].

pub(crate) mod call_names;
pub(crate) mod channel_kind;
pub(crate) mod counted;
mod event_source;
pub(crate) mod file_locks;
pub(crate) mod full_devices;
pub(crate) mod left_locks;
pub(crate) mod look;
pub(crate) mod looks;
pub(crate) mod machine;
pub(crate) mod observer;
pub(crate) mod others;
pub(crate) mod path;
pub(crate) mod ports;
pub(crate) mod proc;
pub(crate) mod raw;
pub(crate) mod reason;
pub(crate) mod recorder;
pub(crate) mod results;
mod shared_memory;
mod stale_files;
pub(crate) mod thread_calls;
pub(crate) mod timeline;
pub(crate) mod traced;
pub(crate) mod user_pages;
