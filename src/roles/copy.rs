//! Bytes copied between user memory and pipe pages, and user pages taken without copying.
//!
//! The loops that copy (copy_user_enhanced_fast_string, rep_movs_alternative), _copy_from_user and
//! __check_object_size have no role: both directions, and system call arguments, go through them.

use super::{Pattern::*, Role, RoleId};

pub(crate) const ROLES: &[Role] = &[
    Role {
        id: RoleId::CopyIn,
        title: "copy in",
        doing: "copying data into the pipe",
        about: "Copying the writer's bytes into pipe pages.",
        colour: "#7fb8e6",
        article_name: "copy_page_from_iter",
        frames: &[
            Prefix("copy_page_from_iter"),
            Prefix("_copy_from_iter"),
            Exact("copy_folio_from_iter"),
            Exact("__copy_from_iter"),
            Exact("copyin"),
            Exact("copy_from_user_iter"),
        ],
        candidates: &["copy_page_from_iter", "_copy_from_iter"],
    },
    Role {
        id: RoleId::CopyOut,
        title: "copy out",
        doing: "copying data out of the pipe",
        about: "Copying pipe pages into the reader's buffer.",
        colour: "#aed4f1",
        article_name: "copy_page_to_iter",
        frames: &[
            Prefix("copy_page_to_iter"),
            Prefix("_copy_to_iter"),
            Exact("copy_folio_to_iter"),
            Exact("__copy_to_iter"),
            Exact("copyout"),
            Exact("copy_to_user_iter"),
        ],
        candidates: &["copy_page_to_iter", "_copy_to_iter"],
    },
    Role {
        id: RoleId::UserPages,
        title: "user pages",
        doing: "getting user pages",
        about: "Finding and pinning the pages behind user memory: iov_iter_get_pages2 and below.",
        colour: "#6cc5c9",
        article_name: "iov_iter_get_pages",
        frames: &[
            Prefix("iov_iter_get_pages"),
            Prefix("__iov_iter_get_pages"),
            Prefix("iov_iter_extract_pages"),
            Prefix("get_user_pages"),
            Prefix("__get_user_pages"),
            Prefix("pin_user_pages"),
            Exact("internal_get_user_pages_fast"),
            Prefix("gup_fast"),
            Prefix("gup_"),
            Exact("lockless_pages_from_mm"),
            Exact("try_grab_compound_head"),
            Exact("try_get_compound_head"),
            Exact("try_grab_page"),
            Exact("try_grab_folio"),
            Exact("try_grab_folio_fast"),
            Exact("try_get_folio"),
            Exact("follow_page_mask"),
            Exact("follow_page_pte"),
            Exact("__gup_longterm_locked"),
        ],
        candidates: &[
            "iov_iter_get_pages2",
            "iov_iter_get_pages",
            "gup_fast_fallback",
            "internal_get_user_pages_fast",
            "get_user_pages_fast",
        ],
    },
];
