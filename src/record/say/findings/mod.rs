//! What is not time: data that was lost, torn, late or taken by another process, calls for nothing, and how a program ended.
//! Each rule is a pure function of the recording, in a file of its subject, and a row of [`RULES`]. None of them says anything of an
//! ordinary pipeline.

mod after_end;
mod answers;
mod backlog;
mod broken_pipe;
mod busy;
mod busy_locks;
mod calls;
mod children;
mod connections;
mod cut_message;
mod cut_short;
mod exit;
mod exit_of;
mod failed;
mod files;
mod full_disk;
mod held_back;
mod ignored;
mod jobs;
mod killed_part;
mod last_words;
mod late;
mod left_in_buffer;
mod left_off;
mod left_socket;
mod left_writing;
mod listens;
mod lock_folders;
mod lock_polls;
mod loops;
mod lost_socket;
mod make;
mod name_server;
mod names;
mod never_read;
mod no_end;
mod no_input;
mod outlives;
mod own_input;
mod parent_thread;
mod part_unpacked;
mod pipes;
mod raced;
mod readers;
mod reads_back;
mod relays;
mod replaced_files;
mod script;
mod stale_pid;
mod stolen_lock;
mod stops_reading;
mod streamed;
mod taken;
#[cfg(test)]
pub(crate) mod tests;
mod through_terminal;
mod timed_circle;
mod torn;
mod typed;
mod unheeded;
mod unread;
mod unread_child;
mod unsent;
mod used_up;
pub(crate) mod view;
mod waits;
mod watches;
mod without_output;
mod work;
mod zombies;

use crate::record::say::findings::view::FindingView;
use crate::result::{Document, Finding};
use crate::util::text::grouped;
pub(crate) use torn::line_cut;

/// A rule: what it finds.
type FindingRule = fn(&FindingView<'_>) -> Vec<Finding>;

/// All rules.
const RULES: [FindingRule; 125] = [
    pipes::at_stall,
    readers::broken,
    calls::find,
    full_disk::find,
    loops::at_end,
    loops::polls,
    late::find,
    streamed::all_before_the_first,
    torn::torn,
    torn::by_threads,
    unsent::unsent,
    unsent::rests,
    unsent::cut_by_own_end,
    left_in_buffer::left_in_buffer,
    broken_pipe::cut_script,
    broken_pipe::cut_part,
    broken_pipe::unread_by_failed,
    broken_pipe::noisy,
    never_read::find,
    connections::not_resumed,
    connections::unread,
    connections::reset,
    connections::dropped,
    relays::ended_early,
    relays::unanswered,
    relays::idle,
    readers::datagrams,
    unread::short_block,
    exit::find,
    taken::find,
    no_input::no_input,
    typed::in_background,
    reads_back::find,
    stolen_lock::find,
    cut_short::find,
    work::started,
    waits::stopped,
    timed_circle::timed_circle,
    name_server::name_server,
    work::hand_overs,
    pipes::small_pipe,
    pipes::unseen,
    backlog::backlog,
    backlog::in_memory,
    pipes::ring_threads,
    watches::watches,
    watches::late_looks,
    waits::renamed,
    names::other_name,
    names::watched,
    names::without_newest,
    names::folder_too_late,
    loops::retries,
    loops::empty_writes,
    unread::unread,
    stops_reading::stops_reading,
    ignored::find,
    jobs::find,
    waits::unnoticed,
    readers::cut,
    left_off::left_off,
    left_off::first_end,
    pipes::large_blocks,
    failed::find,
    unheeded::unheeded,
    killed_part::find,
    own_input::own_input,
    raced::lost_update,
    raced::raced,
    raced::renames_in_vain,
    raced::left_lock,
    stale_pid::find,
    stale_pid::zombie,
    left_socket::find,
    lost_socket::find,
    lock_polls::lock_polls,
    busy_locks::find,
    listens::keeps_listening,
    lock_folders::left,
    lock_folders::free,
    raced::not_listening_yet,
    replaced_files::rotated_by_several,
    files::deleted,
    replaced_files::writes_on,
    replaced_files::found_empty,
    replaced_files::read_half,
    replaced_files::copied_part,
    unread_child::unread_child,
    files::hole,
    torn::line_cut,
    through_terminal::through_terminal,
    waits::refused,
    held_back::held_back,
    torn::doubled,
    children::last_line,
    children::not_awaited,
    left_writing::left_writing,
    torn::out_of_order,
    loops::naps,
    children::left_behind,
    children::lost_variables,
    files::overwritten,
    script::rewritten,
    unread::part_read,
    part_unpacked::part_unpacked,
    cut_message::cut_message,
    no_end::no_end,
    after_end::after_end,
    pipes::small_writes,
    torn::torn_file,
    typed::typed,
    work::turns,
    children::outlived,
    outlives::find,
    outlives::of_failed,
    outlives::unread_input,
    outlives::missed_signal,
    zombies::find,
    parent_thread::find,
    waits::empty_input,
    work::one_by_one,
    work::undone,
    busy::find,
    busy::polls_only,
    busy::wakes,
];

/// What the rules find.
pub(crate) fn all(recording: &Document) -> Vec<Finding> {
    let view = FindingView::new(recording);
    let found = once(RULES.iter().flat_map(|find| find(&view)));
    found.into_iter().map(|finding| last_words::with_words(&view, finding)).collect()
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
