//! What processes did with files by their names, as far as it can matter to another one.

use crate::record::model::related_names::related;
use crate::record::observe::raw::{
    PR_BINDS, PR_CONNECTS, PR_CREATES, PR_EMPTIES, PR_LISTENS, PR_LOOKS, PR_MAKES, PR_OPENS, PR_READS, PR_REMOVES,
    PR_RENAMES, PR_WATCHES_IT, PR_WRITES, PrName, PrNamedFile, PrProcess, PrWho,
};
use crate::record::observe::reason::text_of;
use crate::result::{NameError, NameUse, NamedFile, ProcessLife};
use std::collections::BTreeMap;

/// More are not kept.
const MOST: usize = 400;
/// The type of regular files, in the upper bits of a mode.
const REGULAR: u32 = 8;

/// The uses of names that more than one process used, or one in several ways, and not only to read; by time.
pub(crate) fn named_files(
    counted: &[(PrName, PrNamedFile)],
    processes: &[(PrWho, PrProcess)],
    begin: u64,
    index: &BTreeMap<PrWho, usize>,
) -> Vec<NamedFile> {
    let since = |at: u64| at.saturating_sub(begin);
    let mut ends: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for (who, process) in processes {
        let end = ends.entry(who.tgid).or_default();
        *end = (*end).max((process.end, process.code));
    }
    let used = |(name, counts): &(PrName, PrNamedFile)| {
        if counts.inode > 0 && counts.file_type != REGULAR && (name.does as usize) < PR_CONNECTS {
            return None;
        }
        let path = if (PR_CONNECTS..=PR_LISTENS).contains(&(name.does as usize)) {
            // The address of a socket that listens is the one that it got.
            let is_bound = |by: &PrName| by.does as usize == PR_BINDS && by.error == 0;
            let of = |inode| counted.iter().find(|(by, of)| is_bound(by) && of.inode == inode);
            let of = if name.does as usize == PR_LISTENS { &of(counts.inode)?.1 } else { counts };
            address_of(&of.path)?
        } else {
            text_of(bytemuck::cast_slice(&counts.path))
        };
        let (ended, code) = ends.get(&name.who.tgid).copied().unwrap_or_default();
        Some(NamedFile {
            process: *index.get(&name.who)?,
            pid: name.who.tgid,
            folder: if path.starts_with(['/']) || path.starts_with("port ") { 0 } else { counts.folder },
            path: path.strip_prefix("./").map_or(path.clone(), str::to_owned),
            does: use_of(name.does)?,
            error: error_of(name.error),
            calls: counts.calls,
            at_ns: [counts.first_at, counts.last_at].map(since),
            inode: counts.inode,
            device: counts.device,
            size: counts.size,
            both_ends: counts.both_ends > 0,
            left_by: None,
            unbound: false,
            ended_ns: (ended > 0).then(|| since(ended)),
            exit_code: u8::try_from(code).ok().filter(|code| *code > 0),
        })
    };
    let mut used: Vec<NamedFile> = counted.iter().filter_map(used).collect();
    used.sort_by(|one, other| (one.at_ns, one.pid, &one.path).cmp(&(other.at_ns, other.pid, &other.path)));
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, file) in used.iter().enumerate() {
        by_name.entry(file.last_name()).or_default().push(at);
    }
    let shared = |group: &&Vec<usize>| {
        // Who made it may be no process of these.
        let is_there = |file: &NamedFile| file.error != Some(NameError::Missing) && file.is_of_lock();
        // Who failed could not make it.
        let exists = |file: &NamedFile| file.error == Some(NameError::Exists) && file.exit_code.is_some();
        // Who failed may have done so for that.
        let is_denied = |file: &NamedFile| file.error == Some(NameError::Denied) && file.exit_code.is_some();
        // What it was to rename was there before.
        let is_taken_away = |file: &NamedFile| file.error == Some(NameError::Missing) && file.does == NameUse::Renames;
        let several =
            group.iter().any(|at| (used[*at].pid, used[*at].does) != (used[group[0]].pid, used[group[0]].does));
        (several || used[group[0]].calls > 1) && group.iter().any(|at| used[*at].does > NameUse::Reads)
            || group.iter().any(|at| {
                used[*at].is_failed_address()
                    || is_there(&used[*at])
                    || is_taken_away(&used[*at])
                    || exists(&used[*at])
                    || is_denied(&used[*at])
            })
    };
    let mut kept: Vec<usize> = by_name.values().filter(shared).flatten().copied().collect();
    kept.extend(related(&used, &kept));
    kept.sort_unstable();
    kept.dedup();
    kept.truncate(MOST);
    kept.into_iter().map(|at| used[at].clone()).collect()
}

/// `port 80`, or the path of a Unix socket.
fn address_of(words: &[u64]) -> Option<String> {
    let bytes: &[u8] = bytemuck::cast_slice(words);
    let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    match i32::from(word(0)) {
        libc::AF_UNIX => Some(text_of(&bytes[8..])),
        libc::AF_INET | libc::AF_INET6 => Some(format!("port {}", u16::from_be(word(2)))),
        _ => None,
    }
}

/// When those of `files` lived, and all that had started them.
pub(crate) fn lives(files: &[NamedFile], processes: &[(PrWho, PrProcess)], window: [u64; 2]) -> Vec<ProcessLife> {
    let [begin, end] = window;
    let mut all: BTreeMap<u32, ProcessLife> = BTreeMap::new();
    for (who, process) in processes {
        let new = || ProcessLife { pid: who.tgid, lived_ns: [u64::MAX, 0], ..ProcessLife::default() };
        let life = all.entry(who.tgid).or_insert_with(new);
        life.lived_ns[0] = life.lived_ns[0].min(process.begin.saturating_sub(begin));
        // It may go on after the window.
        let until = if process.end > 0 { process.end } else { end };
        life.lived_ns[1] = life.lived_ns[1].max(until.saturating_sub(begin));
        life.parent = life.parent.max(process.parent as u32);
    }
    let mut found: BTreeMap<u32, ProcessLife> = BTreeMap::new();
    for file in files {
        let mut next = all.get(&file.pid);
        while let Some(life) = next.filter(|life| !found.contains_key(&life.pid)) {
            found.insert(life.pid, life.clone());
            next = all.get(&life.parent);
        }
    }
    found.into_values().collect()
}

fn use_of(does: u32) -> Option<NameUse> {
    Some(match does as usize {
        PR_OPENS => NameUse::Opens,
        PR_READS => NameUse::Reads,
        PR_WRITES => NameUse::Writes,
        PR_CREATES => NameUse::Creates,
        PR_EMPTIES => NameUse::Empties,
        PR_MAKES => NameUse::Makes,
        PR_REMOVES => NameUse::Removes,
        PR_RENAMES => NameUse::Renames,
        PR_LOOKS => NameUse::Looks,
        PR_CONNECTS => NameUse::Connects,
        PR_BINDS => NameUse::Binds,
        PR_LISTENS => NameUse::Listens,
        PR_WATCHES_IT => NameUse::Watches,
        _ => return None,
    })
}

fn error_of(number: u32) -> Option<NameError> {
    match i32::try_from(number).ok()? {
        libc::ENOENT => Some(NameError::Missing),
        libc::EEXIST => Some(NameError::Exists),
        libc::ECONNREFUSED => Some(NameError::Refused),
        libc::ENOTEMPTY => Some(NameError::NotEmpty),
        libc::EADDRINUSE => Some(NameError::InUse),
        0 => None,
        _ => Some(NameError::Denied),
    }
}
