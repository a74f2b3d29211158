//! What becomes of the bytes: lost, cut, torn, doubled, unread, or taken by another process.

pub(crate) mod cut_message;
pub(crate) mod cut_short;
pub(crate) mod full_disk;
pub(crate) mod ignored;
pub(crate) mod left_in_buffer;
pub(crate) mod left_off;
pub(crate) mod left_writing;
pub(crate) mod never_read;
pub(crate) mod no_input;
pub(crate) mod own_input;
pub(crate) mod part_unpacked;
pub(crate) mod readers;
pub(crate) mod reads_back;
pub(crate) mod stops_reading;
pub(crate) mod taken;
pub(crate) mod through_terminal;
pub(crate) mod torn;
pub(crate) mod unread;
pub(crate) mod unread_child;
pub(crate) mod unsent;
