//! The system calls in which threads sleep, as /proc shows them.

use crate::arch::old_calls;
use crate::record::observe::shared_memory::{self, SharedMemory, Sharing};
use crate::record::start::open_files::{FileKind, OpenFile};
use crate::util::text::read_lossy;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Descriptors of one call of `poll` or `select` that are looked at.
const MOST_POLLED: usize = 4096;

/// Threads of one process that are looked at.
pub(crate) const MOST_THREADS: usize = 1024;

const IN: u32 = 1;
const OUT: u32 = 4;

/// A thread at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadNow {
    pub tid: u32,
    /// How often it has slept: a sleep that has not ended has the same number.
    pub sleeps: u64,
    pub call: ThreadCall,
}

/// What a thread does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ThreadCall {
    /// It runs, or cannot: a sleep that is not interruptible, or a signal has stopped it.
    Busy,
    /// It sleeps for something that no descriptor shows, such as a timer or a signal.
    Idle,
    Files(AwaitedFiles),
    /// The end of this child, or of any.
    Child(Option<u32>),
    /// Another thread, without a limit of time.
    Thread,
    /// A lock or semaphore in memory that processes share, without a limit of time: which memory, if that is known.
    Shared(Option<SharedMemory>),
    /// The lock of the file of this descriptor.
    Lock(u32),
    /// The opening of a FIFO.
    Opening {
        /// The descriptor of a folder that the path begins at, if it is not the working directory.
        folder: Option<u32>,
        path: String,
        writes: bool,
    },
}

/// Descriptors of which any ends a sleep.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AwaitedFiles {
    /// Descriptors, and whether room is awaited and not data.
    pub any: Vec<(u32, bool)>,
    /// In `poll` or its like.
    pub polled: bool,
    /// It also ends after a time.
    pub limited: bool,
}

/// The threads of a process that have not ended; none if they are too many, or cannot be read.
pub(crate) fn threads(pid: u32, files: &[OpenFile]) -> Option<Vec<ThreadNow>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let mut tids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    tids.sort_unstable();
    if tids.len() > MOST_THREADS {
        return None;
    }
    let mut threads = Vec::new();
    for tid in tids {
        // It has ended meanwhile.
        let Ok(status) = read_lossy(&format!("/proc/{pid}/task/{tid}/status")) else { continue };
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let state = field("State:").and_then(|state| state.chars().next())?;
        if matches!(state, 'Z' | 'X') {
            continue;
        }
        let sleeps = field("voluntary_ctxt_switches:")?.parse().ok()?;
        let call = match state {
            'S' => call_of(&read_lossy(&format!("/proc/{pid}/task/{tid}/syscall")).ok()?, pid, files),
            _ => ThreadCall::Busy,
        };
        threads.push(ThreadNow { tid, sleeps, call });
    }
    Some(threads)
}

/// A sleeping thread's call, as far as it may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SleepingCall {
    /// It runs by now.
    Runs,
    /// The kernel refuses to tell.
    Unreadable,
    /// The number of the call, `None` outside of one, and what it sleeps for.
    Known(Option<u32>, ThreadCall),
}

/// The call in which a thread sleeps.
pub(crate) fn sleeping_call(pid: u32, tid: u32, files: &[OpenFile]) -> SleepingCall {
    match read_lossy(&format!("/proc/{pid}/task/{tid}/syscall")) {
        Ok(line) => match line.split_whitespace().next().and_then(|number| number.parse::<i64>().ok()) {
            Some(number) => SleepingCall::Known(u32::try_from(number).ok(), call_of(&line, pid, files)),
            None => SleepingCall::Runs,
        },
        // Nor does a kernel without this file.
        Err(_) => SleepingCall::Unreadable,
    }
}

/// The call of a sleeping thread, by its line in /proc/PID/syscall: number, six arguments, stack and code.
fn call_of(line: &str, pid: u32, files: &[OpenFile]) -> ThreadCall {
    let mut words = line.split_whitespace();
    let Some(number) = words.next().and_then(|number| number.parse::<i64>().ok()) else { return ThreadCall::Busy };
    let hexadecimal = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    let words: Vec<u64> = words.filter_map(hexadecimal).collect();
    match <[u64; 8]>::try_from(words) {
        // 32-bit programs have other numbers, and stacks below 4 GiB.
        Ok([arguments @ .., stack, _]) if stack >> 32 != 0 => {
            let call = decoded(number, arguments, files, &|at, buffer| {
                File::open(format!("/proc/{pid}/mem")).and_then(|memory| memory.read_at(buffer, at)).unwrap_or_default()
            });
            match call {
                ThreadCall::Shared(_) => match shared_memory::at(pid, arguments[0]) {
                    Sharing::Threads => ThreadCall::Thread,
                    Sharing::Processes(memory) => ThreadCall::Shared(memory),
                },
                call => call,
            }
        }
        _ => ThreadCall::Idle,
    }
}

/// Reads memory at an address, as much as there is.
type ReadMemory<'a> = &'a dyn Fn(u64, &mut [u8]) -> usize;

fn decoded(number: i64, arguments: [u64; 6], files: &[OpenFile], memory: ReadMemory<'_>) -> ThreadCall {
    let [first, second, third, fourth, fifth, _] = arguments;
    let file = |fd: u64, room: bool| (fd as u32, room);
    let moves = |any: Vec<(u32, bool)>| ThreadCall::Files(AwaitedFiles { any, ..AwaitedFiles::default() });
    let polls = |any: Option<Vec<(u32, bool)>>, limited: bool| {
        any.map_or(ThreadCall::Idle, |any| ThreadCall::Files(AwaitedFiles { any, polled: true, limited }))
    };
    let waits = |milliseconds: u64| milliseconds as i32 >= 0;
    match number {
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_preadv2
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_accept
        | libc::SYS_accept4 => moves(vec![file(first, false)]),
        libc::SYS_write | libc::SYS_writev | libc::SYS_pwritev2 | libc::SYS_sendto | libc::SYS_sendmsg => {
            moves(vec![file(first, true)])
        }
        libc::SYS_splice => moves(vec![file(first, false), file(third, true)]),
        libc::SYS_tee => moves(vec![file(first, false), file(second, true)]),
        libc::SYS_sendfile => moves(vec![file(second, false), file(first, true)]),
        libc::SYS_vmsplice => moves(vec![file(first, true)]),
        old_calls::SYS_poll => polls(polled_files(first, second, memory), waits(third)),
        libc::SYS_ppoll => polls(polled_files(first, second, memory), third != 0),
        old_calls::SYS_select | libc::SYS_pselect6 => {
            polls(selected_files(first, [second, third, fourth], memory), fifth != 0)
        }
        old_calls::SYS_epoll_wait | libc::SYS_epoll_pwait => polls(epoll_files(first, files), waits(fourth)),
        libc::SYS_epoll_pwait2 => polls(epoll_files(first, files), fourth != 0),
        libc::SYS_wait4 => ThreadCall::Child(u32::try_from(first as i32).ok().filter(|pid| *pid > 0)),
        // P_PID; other kinds are groups.
        libc::SYS_waitid => ThreadCall::Child((first == 1).then_some(second as u32)),
        // FUTEX_WAIT, FUTEX_WAIT_BITSET and FUTEX_LOCK_PI, private ones or not; the fourth argument limits the time.
        libc::SYS_futex if matches!(second & 127, 0 | 6 | 9) && fourth == 0 => {
            if second & 128 != 0 {
                ThreadCall::Thread
            } else {
                ThreadCall::Shared(None)
            }
        }
        libc::SYS_flock => ThreadCall::Lock(first as u32),
        libc::SYS_fcntl if matches!(second as i32, libc::F_SETLKW | libc::F_OFD_SETLKW) => {
            ThreadCall::Lock(first as u32)
        }
        old_calls::SYS_open => opening(None, first, second, memory),
        libc::SYS_openat => {
            let folder = u32::try_from(first as i32).ok();
            opening(folder, second, third, memory)
        }
        _ => ThreadCall::Idle,
    }
}

/// Of an event mask, what is awaited. Errors and ends are always reported, and come from the other end, too.
fn room(events: u32) -> bool {
    events & IN == 0 && events & OUT != 0
}

fn polled_files(address: u64, count: u64, memory: ReadMemory<'_>) -> Option<Vec<(u32, bool)>> {
    let count = usize::try_from(count).ok().filter(|count| *count <= MOST_POLLED)?;
    let mut bytes = vec![0; 8 * count];
    let whole = memory(address, &mut bytes) == bytes.len();
    let (entries, _) = bytes.as_chunks::<8>();
    let file = |[a, b, c, d, e, f, ..]: &[u8; 8]| {
        let fd = u32::try_from(i32::from_ne_bytes([*a, *b, *c, *d])).ok()?;
        Some((fd, room(u16::from_ne_bytes([*e, *f]).into())))
    };
    whole.then(|| entries.iter().filter_map(file).collect())
}

fn selected_files(count: u64, sets: [u64; 3], memory: ReadMemory<'_>) -> Option<Vec<(u32, bool)>> {
    let count = usize::try_from(count).ok().filter(|count| *count <= MOST_POLLED)?;
    let mut found = Vec::new();
    for (address, room) in sets.into_iter().zip([false, true, false]).filter(|(address, _)| *address != 0) {
        let mut bytes = vec![0; count.div_ceil(8)];
        if memory(address, &mut bytes) != bytes.len() {
            return None;
        }
        let is_set = |fd: &usize| bytes[fd / 8] >> (fd % 8) & 1 == 1;
        found.extend((0..count).filter(is_set).map(|fd| (fd as u32, room)));
    }
    Some(found)
}

fn epoll_files(fd: u64, files: &[OpenFile]) -> Option<Vec<(u32, bool)>> {
    files.iter().filter(|file| u64::from(file.fd) == fd).find_map(|file| match &file.kind {
        FileKind::Poll(any) => {
            // Event loops such as Go's ask for both directions of each descriptor.
            let only_written = |fd: u32| files.iter().any(|file| file.fd == fd && file.writes && !file.reads);
            let entry = |(fd, events): &(u32, u32)| (*fd, room(*events) || *events & OUT != 0 && only_written(*fd));
            Some(any.iter().map(entry).collect())
        }
        _ => None,
    })
}

/// Only the opening of a FIFO is interruptible.
fn opening(folder: Option<u32>, path: u64, flags: u64, memory: ReadMemory<'_>) -> ThreadCall {
    let mut bytes = vec![0; 4096];
    let length = memory(path, &mut bytes);
    let path = bytes[..length].split(|byte| *byte == 0).next().unwrap_or_default();
    let writes = flags as i32 & libc::O_ACCMODE == libc::O_WRONLY;
    ThreadCall::Opening { folder, path: String::from_utf8_lossy(path).into_owned(), writes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: i64, arguments: [u64; 6], bytes: &[u8]) -> ThreadCall {
        let memory = |at: u64, buffer: &mut [u8]| {
            let from = bytes.get(at as usize..).unwrap_or_default();
            let length = from.len().min(buffer.len());
            buffer[..length].copy_from_slice(&from[..length]);
            length
        };
        let epoll = OpenFile { fd: 5, kind: FileKind::Poll(vec![(6, 0x19), (7, 4)]), reads: true, writes: true };
        decoded(number, arguments, &[epoll], &memory)
    }

    fn polled(any: &[(u32, bool)], limited: bool) -> ThreadCall {
        ThreadCall::Files(AwaitedFiles { any: any.to_vec(), polled: true, limited })
    }

    #[test]
    fn descriptors_are_read_from_calls_and_their_memory() {
        let entry = |fd: i32, events: u16| [&fd.to_ne_bytes()[..], &events.to_ne_bytes(), &[0; 2]].concat();
        let entries = [entry(3, 1), entry(-1, 1), entry(4, 4)].concat();
        assert_eq!(
            call(old_calls::SYS_poll, [0, 3, u64::MAX, 0, 0, 0], &entries),
            polled(&[(3, false), (4, true)], false)
        );
        assert_eq!(call(old_calls::SYS_poll, [0, 3, 100, 0, 0, 0], &entries), polled(&[(3, false), (4, true)], true));
        assert_eq!(call(libc::SYS_ppoll, [0, 9, 0, 0, 0, 0], &entries), ThreadCall::Idle, "not all can be read");
        assert_eq!(
            call(old_calls::SYS_select, [10, 1, 3, 0, 0, 0], &[0, 8, 2, 1, 0]),
            polled(&[(3, false), (9, false), (0, true)], false)
        );
        assert_eq!(
            call(old_calls::SYS_epoll_wait, [5, 0, 9, u64::from(u32::MAX), 0, 0], &[]),
            polled(&[(6, false), (7, true)], false)
        );
        assert_eq!(call(old_calls::SYS_epoll_wait, [4, 0, 9, 0, 0, 0], &[]), ThreadCall::Idle, "no epoll");
    }

    #[test]
    fn other_calls_are_known_by_their_arguments() {
        let files =
            |any: &[(u32, bool)]| ThreadCall::Files(AwaitedFiles { any: any.to_vec(), ..AwaitedFiles::default() });
        assert_eq!(call(libc::SYS_splice, [3, 0, 4, 0, 0, 0], &[]), files(&[(3, false), (4, true)]));
        assert_eq!(call(libc::SYS_wait4, [u64::MAX, 0, 0, 0, 0, 0], &[]), ThreadCall::Child(None));
        assert_eq!(call(libc::SYS_wait4, [42, 0, 0, 0, 0, 0], &[]), ThreadCall::Child(Some(42)));
        assert_eq!(call(libc::SYS_futex, [0, 128, 0, 0, 0, 0], &[]), ThreadCall::Thread);
        assert_eq!(call(libc::SYS_futex, [0, 128, 0, 1, 0, 0], &[]), ThreadCall::Idle, "it ends after a time");
        assert_eq!(
            call(libc::SYS_futex, [0, 0, 0, 0, 0, 0], &[]),
            ThreadCall::Shared(None),
            "other processes can share it"
        );
        let fifo = |folder| ThreadCall::Opening { folder, path: "a b".to_owned(), writes: true };
        assert_eq!(call(libc::SYS_openat, [7, 1, 1, 0, 0, 0], b"/a b\0c"), fifo(Some(7)));
        let here = u64::from(libc::AT_FDCWD.cast_unsigned());
        assert_eq!(call(libc::SYS_openat, [here, 1, 1, 0, 0, 0], b"/a b\0c"), fifo(None));
        assert_eq!(call(libc::SYS_nanosleep, [0; 6], &[]), ThreadCall::Idle);
        assert_eq!(call_of("running", 1, &[]), ThreadCall::Busy);
        assert_eq!(call_of("0 0x3 0x0 0x0 0x0 0x0 0x0 0xffd0 0x1", 1, &[]), ThreadCall::Idle, "of 32 bits");
    }
}
