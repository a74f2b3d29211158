//! Files that a process follows while their names are those of other files: after a log was rotated, `tail -f` reads the old one.

use crate::record::start::command_line::{self, program_name};
use crate::record::start::open_files::is_read_only;
use crate::result::{SeenProcess, StaleFile};
use crate::util::process_stat::ProcessStat;
use crate::util::text::read_lossy;
use rustix::fs::Stat;
use std::path::{Path, PathBuf};

/// Programs that read on at the end of the files in their command lines, and options with which they look for new ones.
const FOLLOWERS: [&str; 2] = ["tail", "less"];
const BY_NAME: [&str; 3] = ["-F", "--follow=name", "--retry"];

/// What /proc adds to the name of a file that was deleted.
const DELETED: &str = " (deleted)";

/// The file that a process follows, if its name has gone. Only one: of several, it is not known which had which name.
pub(crate) fn stale_file(pid: u32) -> Option<StaleFile> {
    let words = command_line::of_process(pid);
    let name = program_name(&ProcessStat::of(pid)?.name, &words);
    let by_name = words.iter().any(|word| BY_NAME.contains(&word.as_str()) || word.starts_with("-F"));
    if !FOLLOWERS.contains(&name.as_str()) || by_name {
        return None;
    }
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten().map(|entry| entry.path());
    let links: Vec<PathBuf> = entries.collect();
    let all: Vec<Stat> = links.iter().filter_map(|link| rustix::fs::stat(link).ok()).collect();
    let open: Vec<(Stat, String)> = links.iter().filter_map(|link| followed(pid, link)).collect();
    let stat = |word: &str| {
        let place = if word.starts_with('/') { "root" } else { "cwd/" };
        rustix::fs::stat(format!("/proc/{pid}/{place}{word}")).ok()
    };
    let is_same = |one: &Stat, other: &Stat| (one.st_ino, one.st_dev) == (other.st_ino, other.st_dev);
    let named: Vec<(&String, Option<Stat>)> =
        words.iter().skip(1).filter(|word| !word.starts_with(['-', '+'])).map(|word| (word, stat(word))).collect();
    let is_open = |of: &Option<Stat>| of.as_ref().is_some_and(|of| all.iter().any(|file| is_same(file, of)));
    let is_named = |file: &Stat| named.iter().any(|(_, of)| of.as_ref().is_some_and(|of| is_same(file, of)));
    let mut lost: Vec<&(Stat, String)> = open.iter().filter(|(file, _)| !is_named(file)).collect();
    // Nothing was read of an empty one, such as the lock that flock(1) leaves open for its program.
    if lost.len() > 1 {
        lost.retain(|(file, _)| file.st_size > 0);
    }
    // The value of an option, such as the number of lines, is no file.
    let free = named.iter().filter(|(word, of)| !is_open(of) && (of.is_some() || is_name_of(word, &lost)));
    let ([(_, link)], [(path, of)]) = (&lost[..], &free.collect::<Vec<_>>()[..]) else { return None };
    let now = (!link.ends_with(DELETED)).then(|| link.clone());
    let process = SeenProcess { pid, name, ..SeenProcess::default() };
    Some(StaleFile { process, path: (*path).clone(), now, replaced: of.is_some() })
}

/// Whether one of these files had this name, or has one that begins with it.
fn is_name_of(word: &str, files: &[&(Stat, String)]) -> bool {
    let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let name = last(word);
    !name.is_empty() && files.iter().any(|(_, link)| last(link).starts_with(&name))
}

/// A file that a process has read to its end: what it is, and its name now.
fn followed(pid: u32, link: &Path) -> Option<(Stat, String)> {
    let file = rustix::fs::stat(link).ok().filter(|file| file.st_mode & libc::S_IFMT == libc::S_IFREG)?;
    let info = read_lossy(&format!("/proc/{pid}/fdinfo/{}", link.file_name()?.to_str()?)).ok()?;
    let place: i64 = info.lines().find_map(|line| line.strip_prefix("pos:"))?.trim().parse().ok()?;
    let name = std::fs::read_link(link).ok()?.to_string_lossy().into_owned();
    (is_read_only(&info) && place == file.st_size).then_some((file, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::own_child::OwnChild;
    use std::process::{Command, Stdio};

    #[test]
    fn a_file_that_is_followed_after_it_was_renamed_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let [log, old] = ["app.log", "app.log.1"].map(|name| folder.path().join(name));
        std::fs::write(&log, "1\n").unwrap();
        let mut command = Command::new("tail");
        command.args(["-n", "5", "-f", "app.log"]).current_dir(folder.path()).stdout(Stdio::null());
        let lock = folder.path().join("lock");
        std::fs::write(&lock, "").unwrap();
        command.stdin(std::fs::File::open(lock).unwrap());
        let tail = OwnChild::spawn(&mut command).unwrap();
        let find = |is: &dyn Fn(&StaleFile) -> bool| {
            let begun = std::time::Instant::now();
            while begun.elapsed().as_secs() < 60 {
                if let Some(file) = stale_file(tail.id()).filter(|file| is(file)) {
                    return Some((file.path, file.now, file.replaced));
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            None
        };
        let entries = || std::fs::read_dir(format!("/proc/{}/fd", tail.id())).unwrap().flatten();
        let is_open =
            || entries().any(|entry| std::fs::read_link(entry.path()).is_ok_and(|file| file.ends_with("app.log")));
        while !is_open() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(stale_file(tail.id()), None);
        std::fs::rename(&log, &old).unwrap();
        let old = old.canonicalize().unwrap().to_str().unwrap().to_owned();
        assert_eq!(find(&|_| true), Some(("app.log".to_owned(), Some(old.clone()), false)));
        std::fs::write(&log, "2\n").unwrap();
        assert_eq!(find(&|file| file.replaced), Some(("app.log".to_owned(), Some(old.clone()), true)));
        std::fs::remove_file(old).unwrap();
        assert_eq!(find(&|file| file.now.is_none()), Some(("app.log".to_owned(), None, true)));
    }
}
