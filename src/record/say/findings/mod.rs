//! What is not time: data that was lost, torn, late or taken by another process, calls for nothing, and how a program ended.
//! Each rule is a pure function of the recording, in a file of its subject, and a row of [`RULES`]. None of them says anything of an
//! ordinary pipeline.

pub(crate) mod children;
mod data;
mod effort;
mod ends;
mod named;
mod sockets;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod view;
mod waits;

use crate::record::say::findings::view::FindingView;
use crate::result::{Document, Finding};
use crate::util::text::grouped;
pub(crate) use data::torn::line_cut;

/// A rule: what it finds.
type FindingRule = fn(&FindingView<'_>) -> Vec<Finding>;

/// All rules.
const RULES: [FindingRule; 131] = [
    waits::pipes::at_stall,
    data::readers::broken,
    effort::calls::find,
    data::full_disk::find,
    effort::loops::at_end,
    effort::loops::polls,
    waits::late::find,
    waits::streamed::all_before_the_first,
    data::torn::torn,
    data::torn::by_threads,
    data::unsent::unsent,
    data::unsent::rests,
    data::unsent::cut_by_own_end,
    data::left_in_buffer::left_in_buffer,
    ends::broken_pipe::cut_script,
    ends::broken_pipe::cut_part,
    ends::broken_pipe::unread_by_failed,
    ends::broken_pipe::noisy,
    data::never_read::find,
    sockets::connections::not_resumed,
    sockets::connections::unread,
    sockets::connections::reset,
    sockets::connections::dropped,
    sockets::relays::ended_early,
    sockets::relays::unanswered,
    sockets::relays::idle,
    sockets::not_shut::not_shut,
    sockets::no_answer::no_answer,
    data::readers::datagrams,
    data::unread::short_block,
    ends::exit::find,
    data::taken::find,
    data::no_input::no_input,
    waits::typed::in_background,
    data::reads_back::find,
    named::stolen_lock::find,
    data::cut_short::find,
    effort::work::started,
    waits::in_vain::stopped,
    waits::timed_circle::timed_circle,
    sockets::name_server::name_server,
    effort::work::hand_overs,
    waits::pipes::small_pipe,
    waits::pipes::unseen,
    waits::backlog::backlog,
    waits::backlog::in_memory,
    waits::pipes::ring_threads,
    waits::in_order::in_order,
    effort::loops::writes_in_vain,
    children::watches::watches,
    children::watches::late_looks,
    waits::in_vain::renamed,
    named::names::other_name,
    named::names::watched,
    named::names::without_newest,
    named::names::folder_too_late,
    effort::loops::retries,
    effort::loops::empty_writes,
    data::unread::unread,
    data::stops_reading::stops_reading,
    data::ignored::find,
    children::jobs::find,
    waits::in_vain::unnoticed,
    data::readers::cut,
    data::left_off::left_off,
    data::left_off::first_end,
    waits::pipes::large_blocks,
    ends::failed::find,
    ends::not_started::not_started,
    ends::unheeded::unheeded,
    ends::killed_part::find,
    data::own_input::own_input,
    named::raced::lost_update,
    named::raced::raced,
    named::raced::renames_in_vain,
    named::raced::left_lock,
    named::stale_pid::find,
    named::stale_pid::zombie,
    named::left_socket::find,
    named::lost_socket::find,
    named::lock_polls::lock_polls,
    named::busy_locks::find,
    sockets::listens::keeps_listening,
    named::lock_folders::left,
    named::lock_folders::free,
    named::raced::not_listening_yet,
    named::replaced_files::rotated_by_several,
    named::overwritten::deleted,
    named::replaced_files::writes_on,
    named::replaced_files::found_empty,
    named::replaced_files::emptied_under,
    named::replaced_files::read_half,
    named::replaced_files::copied_part,
    data::unread_child::unread_child,
    named::overwritten::hole,
    data::torn::line_cut,
    data::through_terminal::through_terminal,
    waits::in_vain::refused,
    sockets::held_back::held_back,
    data::torn::doubled,
    children::left_children::last_line,
    children::left_children::not_awaited,
    data::left_writing::left_writing,
    data::torn::out_of_order,
    effort::loops::naps,
    children::left_children::left_behind,
    children::left_children::lost_variables,
    named::overwritten::overwritten,
    named::script::rewritten,
    data::unread::part_read,
    data::part_unpacked::part_unpacked,
    data::cut_message::cut_message,
    waits::no_end::no_end,
    waits::after_end::after_end,
    waits::pipes::small_writes,
    data::torn::torn_file,
    waits::typed::typed,
    effort::work::turns,
    children::left_children::outlived,
    children::outlives::find,
    children::outlives::of_failed,
    children::outlives::unread_input,
    children::outlives::missed_signal,
    children::zombies::find,
    children::parent_thread::find,
    children::xargs::empty_input,
    effort::work::one_by_one,
    effort::work::undone,
    effort::busy::find,
    effort::busy::polls_only,
    effort::busy::wakes,
];

/// What the rules find.
pub(crate) fn all(recording: &Document) -> Vec<Finding> {
    let view = FindingView::new(recording);
    let found = once(RULES.iter().flat_map(|find| find(&view)));
    found.into_iter().map(|finding| ends::last_words::with_words(&view, finding)).collect()
}

/// More sentences that differ in their numbers only are one.
const SEVERAL: usize = 2;

/// Of sentences that differ in their numbers only, the first one, with how many there are.
fn once(found: impl Iterator<Item = Finding>) -> Vec<Finding> {
    let without_numbers =
        |text: &str| text.replace(|letter: char| letter.is_ascii_digit() || ",.".contains(letter), "");
    let mut known: Vec<(String, Finding, Vec<Finding>)> = Vec::new();
    for finding in found {
        let text = without_numbers(&finding.text);
        match known.iter_mut().find(|(other, first, _)| *other == text && first.kind == finding.kind) {
            Some((_, _, more)) => more.push(finding),
            None => known.push((text, finding, Vec::new())),
        }
    }
    let merged = known.into_iter().flat_map(|(_, mut first, more)| {
        if more.len() < SEVERAL {
            return [vec![first], more].concat();
        }
        first.text.push_str(&format!(" The same happened {} more times.", grouped(more.len() as u64)));
        for other in more {
            first.channels.extend(other.channels);
            first.processes.extend(other.processes);
        }
        vec![first]
    });
    merged.collect()
}
