//! What a process has open, as /proc shows it. Nothing of it is opened: an end held open would take away the end of file
//! or SIGPIPE.

use crate::record::start::launch::MadePipe;
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, major, minor, statx};

/// An open file that can end a sleep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenFile {
    pub fd: u32,
    pub kind: FileKind,
    pub reads: bool,
    pub writes: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// A pipe, or a FIFO with its path.
    Pipe(MadePipe, Option<String>),
    /// A socket, by its inode.
    Socket(u64),
    /// A pseudo-terminal: its master, which a terminal or `script` has, or the side of the programs in it.
    Terminal {
        /// Twice its number, and above that its mount of devpts: each has numbers of its own. As the BPF programs have it.
        id: u64,
        is_master: bool,
    },
    /// An eventfd, by its number.
    Event(u64),
    /// An epoll, with its descriptors and events.
    Poll(Vec<(u32, u32)>),
    /// A pidfd.
    Process(u32),
    /// A timerfd that is not armed.
    IdleTimer,
    Other,
}

/// The files that a process has open.
pub(crate) fn open_files(pid: u32) -> std::io::Result<Vec<OpenFile>> {
    first_open_files(pid, usize::MAX)
}

/// The first `most` of them.
pub(crate) fn first_open_files(pid: u32, most: usize) -> std::io::Result<Vec<OpenFile>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd"))?.flatten().take(most);
    // A file may have been closed meanwhile.
    Ok(entries.filter_map(|entry| open_file(pid, entry.file_name().to_str()?.parse().ok()?)).collect())
}

fn open_file(pid: u32, fd: u32) -> Option<OpenFile> {
    let path = format!("/proc/{pid}/fd/{fd}");
    let link = std::fs::read_link(&path).ok()?.to_string_lossy().into_owned();
    let number = |prefix: &str| link.strip_prefix(prefix)?.strip_suffix(']')?.parse().ok();
    let info = || std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok();
    if let Some(inode) = number("socket:[") {
        return Some(OpenFile { fd, kind: FileKind::Socket(inode), reads: true, writes: true });
    }
    if let Some(kind) = link.strip_prefix("anon_inode:") {
        return Some(OpenFile { fd, kind: anonymous(kind, &info()?), reads: true, writes: true });
    }
    if link.starts_with("pipe:[") || link.starts_with('/') {
        let facts = FileFacts::of(&path)?;
        match facts.file_type {
            FileType::Fifo => {
                let (reads, writes) = access(&info()?)?;
                let name = link.starts_with('/').then_some(link);
                return Some(OpenFile { fd, kind: FileKind::Pipe(facts.place, name), reads, writes });
            }
            FileType::CharacterDevice => {
                let kind = terminal(pid, &link, &facts, &info).unwrap_or(FileKind::Other);
                return Some(OpenFile { fd, kind, reads: true, writes: true });
            }
            _ => {}
        }
    }
    Some(OpenFile { fd, kind: FileKind::Other, reads: true, writes: true })
}

/// What is known of an open file without asking its file system.
struct FileFacts {
    file_type: FileType,
    /// Its inode and the device of its file system.
    place: MadePipe,
    /// If it is a device.
    device: (u32, u32),
}

impl FileFacts {
    /// A file system in user space or of another machine may never answer: what the kernel knows already is enough.
    fn of(path: &str) -> Option<Self> {
        let wanted = StatxFlags::TYPE | StatxFlags::INO;
        match statx(CWD, path, AtFlags::STATX_DONT_SYNC, wanted) {
            Ok(found) => Some(Self {
                file_type: FileType::from_raw_mode(found.stx_mode.into()),
                place: MadePipe { inode: found.stx_ino, device: found.stx_dev_major << 20 | found.stx_dev_minor },
                device: (found.stx_rdev_major, found.stx_rdev_minor),
            }),
            // Since 4.11; a filter of system calls may not know it.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
                let stat = rustix::fs::stat(path).ok()?;
                Some(Self {
                    file_type: FileType::from_raw_mode(stat.st_mode),
                    place: MadePipe::of(&stat),
                    device: (major(stat.st_rdev), minor(stat.st_rdev)),
                })
            }
            Err(_) => None,
        }
    }
}

/// A pseudo-terminal, by the numbers of its device (include/uapi/linux/major.h), whatever its path is.
fn terminal(pid: u32, link: &str, facts: &FileFacts, info: &dyn Fn() -> Option<String>) -> Option<FileKind> {
    const SIDE_OF_PROGRAMS: u32 = 136;
    const PTMX: (u32, u32) = (5, 2);
    let (number, mount, is_master): (u32, _, _) = match facts.device {
        (SIDE_OF_PROGRAMS, number) => (number, facts.place, false),
        PTMX => {
            let mount = if link.ends_with("/pts/ptmx") {
                facts.place
            } else {
                FileFacts::of(&format!("/proc/{pid}/root/dev/pts"))?.place
            };
            (field(&info()?, "tty-index:")?.parse().ok()?, mount, true)
        }
        _ => return None,
    };
    Some(FileKind::Terminal { id: u64::from(mount.device) << 32 | (u64::from(number) * 2), is_master })
}

/// A field of an fdinfo (proc_pid_fdinfo(5)).
fn field<'a>(fdinfo: &'a str, name: &str) -> Option<&'a str> {
    fdinfo.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// A file of the kernel's own, by its name and its fdinfo.
fn anonymous(kind: &str, fdinfo: &str) -> FileKind {
    let field = |name: &str| field(fdinfo, name);
    let number = |name: &str| field(name)?.parse().ok();
    match kind.trim_matches(['[', ']']) {
        "eventpoll" => FileKind::Poll(fdinfo.lines().filter_map(polled).collect()),
        "eventfd" => number("eventfd-id:").map_or(FileKind::Other, FileKind::Event),
        "pidfd" => number("Pid:").and_then(|pid| u32::try_from(pid).ok()).map_or(FileKind::Other, FileKind::Process),
        "timerfd" if field("it_value:") == Some("(0, 0)") => FileKind::IdleTimer,
        _ => FileKind::Other,
    }
}

/// A descriptor of an epoll, and its events: `tfd: 4 events: 19 data: ...`.
fn polled(line: &str) -> Option<(u32, u32)> {
    let mut words = line.strip_prefix("tfd:")?.split_whitespace();
    let fd = words.next()?.parse().ok()?;
    let events = words.nth(1)?;
    Some((fd, u32::from_str_radix(events, 16).ok()?))
}

/// Whether a descriptor can read and write, by the octal `flags` of its fdinfo.
fn access(fdinfo: &str) -> Option<(bool, bool)> {
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"))?;
    match i32::from_str_radix(flags.trim(), 8).ok()? & libc::O_ACCMODE {
        libc::O_RDONLY => Some((true, false)),
        libc::O_WRONLY => Some((false, true)),
        libc::O_RDWR => Some((true, true)),
        _ => None,
    }
}

/// Whether a descriptor with this fdinfo can read and not write.
pub(crate) fn is_read_only(fdinfo: &str) -> bool {
    access(fdinfo) == Some((true, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_is_read_from_the_flags() {
        assert_eq!(access("pos:\t0\nflags:\t0100000\nmnt_id:\t15\n"), Some((true, false)));
        assert_eq!(access("flags:\t02000001\n"), Some((false, true)));
        assert_eq!(access("flags:\t04002\n"), Some((true, true)));
        assert_eq!(access("flags:\tx"), None);
        assert_eq!(access(""), None);
    }

    #[test]
    fn files_of_the_kernel_are_known_by_their_information() {
        let info = "pos:\t0\ntfd:        5 events:       19 data:   5  pos:0 ino:61 sdev:5\ntfd: 7 events: 4 data: 7\n";
        assert_eq!(anonymous("[eventpoll]", info), FileKind::Poll(vec![(5, 0x19), (7, 4)]));
        assert_eq!(anonymous("[eventfd]", "eventfd-count: 0\neventfd-id: 12\n"), FileKind::Event(12));
        assert_eq!(anonymous("[eventfd]", "eventfd-count: 0\n"), FileKind::Other, "before 5.2");
        assert_eq!(anonymous("[pidfd]", "Pid:\t42\nNSpid:\t42\n"), FileKind::Process(42));
        assert_eq!(anonymous("[pidfd]", "Pid:\t-1\n"), FileKind::Other, "it has ended");
        assert_eq!(anonymous("[timerfd]", "it_value: (0, 0)\n"), FileKind::IdleTimer);
        assert_eq!(anonymous("[timerfd]", "it_value: (3, 5)\n"), FileKind::Other);
        assert_eq!(anonymous("inotify", ""), FileKind::Other);
    }
}
