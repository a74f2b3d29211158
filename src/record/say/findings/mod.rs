//! What is not time: data that was lost, torn, late or taken by another process, calls for nothing, and how a program ended.
//! Each rule is a file with a pure function of the recording, and a row of [`RULES`]. None of them says anything of an ordinary
//! pipeline.

mod answers;
mod at_end;
mod at_stall;
mod broken;
mod calls;
mod cut;
mod datagrams;
mod doubled;
mod empty_input;
mod exit;
mod failed;
mod hand_overs;
mod killed_part;
mod large_blocks;
mod last_line;
mod late;
mod left_behind;
mod line_cut;
mod lost_variables;
mod naps;
mod not_awaited;
mod one_by_one;
mod out_of_order;
mod outlived;
mod overwritten;
mod own_input;
mod part_read;
mod polls;
mod refused;
mod renamed;
mod retries;
mod ring_threads;
mod short_block;
mod small_pipe;
mod small_writes;
mod started;
mod stopped;
mod taken;
#[cfg(test)]
pub(crate) mod tests;
mod torn;
mod torn_file;
mod turns;
mod typed;
mod undone;
mod unnoticed;
mod unread;
mod unseen;
mod unsent;
pub(crate) mod view;
mod watches;

use crate::record::say::findings::view::FindingView;
use crate::result::{Document, Finding};

/// A rule: what it finds.
type FindingRule = fn(&FindingView<'_>) -> Vec<Finding>;

/// All rules.
const RULES: [FindingRule; 47] = [
    at_stall::find,
    broken::find,
    calls::find,
    at_end::find,
    polls::find,
    late::find,
    torn::find,
    unsent::find,
    datagrams::find,
    short_block::find,
    exit::find,
    taken::find,
    started::find,
    stopped::find,
    hand_overs::find,
    small_pipe::find,
    unseen::find,
    ring_threads::find,
    watches::find,
    renamed::find,
    retries::find,
    unread::find,
    unnoticed::find,
    cut::find,
    large_blocks::find,
    failed::find,
    killed_part::find,
    own_input::find,
    line_cut::find,
    refused::find,
    doubled::find,
    last_line::find,
    not_awaited::find,
    out_of_order::find,
    naps::find,
    left_behind::find,
    lost_variables::find,
    overwritten::find,
    part_read::find,
    small_writes::find,
    torn_file::find,
    typed::find,
    turns::find,
    outlived::find,
    empty_input::find,
    one_by_one::find,
    undone::find,
];

/// What the rules find.
pub(crate) fn all(recording: &Document) -> Vec<Finding> {
    let view = FindingView::new(recording);
    RULES.iter().flat_map(|find| find(&view)).collect()
}
