//! Writes for which there was no room.

use crate::profile::listed;
use crate::record::say::findings::view::FindingView;
use crate::record::say::standstill::full_name;
use crate::result::{Finding, FindingKind, FullDevice, NameUse, NamedFile, RecordedStream};
use crate::util::size;
use crate::util::text::{clean, counted, plural};
use std::collections::BTreeMap;

/// More programs are not named.
const NAMED: usize = 3;

/// The part of a file system from which on deleted files matter.
const MUCH: f64 = 0.05;

/// `` `/mnt` (2.0M) is full: 2 writes of `head` failed (ENOSPC), and its output is not complete. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let all = view.document.recorded.iter().enumerate();
    let mut places: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
    for (at, process) in all.filter(|(_, process)| process.without_space > 0) {
        places.entry(process.full_device.as_ref().map(|device| device.path.as_str())).or_default().push(at);
    }
    places.into_values().filter_map(|who| of_place(view, &who)).collect()
}

fn of_place(view: &FindingView<'_>, who: &[usize]) -> Option<Finding> {
    let of = |at: &usize| view.document.recorded.get(*at);
    let count: u64 = who.iter().filter_map(of).map(|process| process.without_space).sum();
    let device = who.iter().filter_map(of).find_map(|process| process.full_device.as_ref());
    let mut names: Vec<String> = who.iter().map(|at| view.name(*at)).collect();
    names.sort();
    names.dedup();
    let several = names.len() > 1;
    if names.len() > NAMED {
        let rest = names.len() - NAMED;
        names.truncate(NAMED);
        names.push(counted(rest as u64, "other program"));
    }
    // Who goes on has not noticed.
    let went_on = if count > who.len() as u64 && !several { ", and it went on all the same" } else { "" };
    let files = || view.document.streams.iter().filter(|stream| who.contains(&stream.process) && stream.writes);
    let temporary = temporary(view, who);
    let to = match (files().collect::<Vec<&RecordedStream>>().as_slice(), temporary) {
        (_, Some(file)) => format!(" to its temporary file `{}`", clean(&file.path)),
        ([one], None) => format!(" to `{}`", clean(&one.file)),
        _ => String::new(),
    };
    let writes = format!("{} of {}{to} failed", counted(count, "write"), listed(names));
    let lost = format!("{} output is not complete", if several { "their" } else { "its" });
    let text = match device {
        Some(device) => {
            let (path, size) = (clean(&device.path), size::format(device.bytes));
            let deleted = deleted(device);
            format!("`{path}` ({size}) is full: {writes} (ENOSPC){went_on}, and {lost}.{deleted}")
        }
        None if temporary.is_some() => format!(
            "{writes}, because there was no room on the file system of that (ENOSPC). TMPDIR gives it another folder, and so does an option of some \
             (`sort -T`)."
        ),
        None => format!(
            "{writes}, because there was no room on the device (ENOSPC){went_on}: {lost}. `df` shows which file system is full."
        ),
    };
    let at_ns = who.iter().filter_map(of).map(|process| process.end_ns).min();
    let finding = Finding::new(FindingKind::NoSpace, who.to_vec(), text);
    Some(Finding { count: Some(count), at_ns, ..finding })
}

/// The file that one of these processes made last, if it has removed it itself.
fn temporary<'a>(view: &FindingView<'a>, who: &[usize]) -> Option<&'a NamedFile> {
    let files = &view.document.named_files;
    let own = || files.iter().filter(|file| who.contains(&file.process) && file.error.is_none());
    let last = own()
        .filter(|file| file.does == NameUse::Creates || file.does == NameUse::Empties)
        .max_by_key(|file| file.at_ns[0])?;
    let removes = |file: &NamedFile| file.does == NameUse::Removes && file.pid == last.pid && file.is_same_place(last);
    own().any(removes).then_some(last)
}

/// Who has the room.
fn deleted(device: &FullDevice) -> String {
    let much = (device.bytes as f64 * MUCH) as u64;
    let Some((holder, bytes)) = device.deleted.first().filter(|(_, bytes)| *bytes > much) else { return String::new() };
    let others = device.deleted.len() - 1;
    let others = if others > 0 {
        format!(", and {others} other {} more", plural(others as u64, "process"))
    } else {
        String::new()
    };
    format!(
        " {} has {} of it in files that are deleted already{others}: there is room again when it closes them.",
        full_name(holder),
        size::format(*bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::{Document, SeenProcess};

    #[test]
    fn writes_without_room_are_said() {
        let failed = |change: &dyn Fn(&mut Document)| said(find, change);
        let one = |count: u64| failed(&|recording| recording.recorded[1].without_space = count);
        let text = "3,072 writes of `grep` failed, because there was no room on the device (ENOSPC), and it went on all the same: its \
                    output is not complete. `df` shows which file system is full.";
        assert_eq!(one(3072), [text]);
        let once = "1 write of `grep` failed, because there was no room on the device (ENOSPC): its";
        assert!(one(1)[0].starts_with(once) && one(0).is_empty());
        let holder = SeenProcess { pid: 7, name: "monitor.py".to_owned(), ..SeenProcess::default() };
        let device = FullDevice { path: "/mnt".to_owned(), bytes: 2 << 20, deleted: vec![(holder, 1 << 20)] };
        let two = failed(&|recording| {
            for process in &mut recording.recorded[..2] {
                (process.without_space, process.full_device) = (1, Some(device.clone()));
            }
        });
        let text = "`/mnt` (2M) is full: 2 writes of `grep` and `seq` failed (ENOSPC), and their output is not complete. `monitor.py` \
                    (process 7) has 1M of it in files that are deleted already: there is room again when it closes them.";
        assert_eq!(two, [text]);
    }
}
