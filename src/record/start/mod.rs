//! Start a pipeline, or find one that is running: [`launch`] starts the stages with their [`input`], and calls that [`seccomp`] refuses, [`running`] finds the
//! processes of others by their [`open_files`], those of a [`cgroup`] or a [`container`], [`command_line`] names them, and [`described`] says what each does. A guest gets [`sent_files`].

pub(crate) mod cgroup;
pub(crate) mod command_line;
pub(crate) mod container;
pub(crate) mod described;
pub(crate) mod input;
pub(crate) mod launch;
pub(crate) mod open_files;
pub(crate) mod running;
pub(crate) mod seccomp;
pub(crate) mod sent_files;
pub(crate) mod socket_peers;
