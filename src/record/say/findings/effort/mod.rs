//! Work and calls that are for nothing, or too many.

pub(crate) mod busy;
pub(crate) mod calls;
pub(crate) mod loops;
pub(crate) mod used_up;
pub(crate) mod work;
