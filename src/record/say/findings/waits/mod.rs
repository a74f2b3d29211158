//! What is late, or waits for what does not come.

pub(crate) mod after_end;
pub(crate) mod backlog;
pub(crate) mod in_order;
pub(crate) mod in_vain;
pub(crate) mod late;
pub(crate) mod no_end;
pub(crate) mod pipes;
pub(crate) mod streamed;
pub(crate) mod timed_circle;
pub(crate) mod typed;
