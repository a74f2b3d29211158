//! Timestamps of the pipe's inode.

use super::{Pattern::*, Role, RoleId};

pub(crate) const ROLES: &[Role] = &[Role {
    id: RoleId::Timestamps,
    title: "timestamps",
    doing: "updating time stamps",
    about: "Updating the pipe's modification and access times; newer kernels keep none for anonymous pipes.",
    colour: "#d9d3a0",
    article_name: "file_update_time",
    frames: &[
        Exact("file_update_time"),
        Exact("__file_update_time"),
        Exact("file_update_time_flags"),
        Exact("file_modified"),
        Exact("file_accessed"),
        Exact("touch_atime"),
        Exact("atime_needs_update"),
        Exact("inode_update_time"),
        Exact("inode_needs_update_time"),
        Exact("inode_update_timestamps"),
        Exact("generic_update_time"),
        Exact("current_time"),
        Exact("sb_start_write_trylock"),
        Exact("__sb_start_write"),
        Exact("__sb_end_write"),
        Exact("__mnt_want_write_file"),
        Exact("mnt_drop_write_file"),
        Exact("__mnt_drop_write_file"),
    ],
    candidates: &["file_update_time", "touch_atime"],
}];
