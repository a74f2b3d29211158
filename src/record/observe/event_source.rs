//! What a descriptor is for that no channel of recorded processes is behind.

use crate::record::start::open_files::{FileKind, OpenFile};
use crate::record::start::socket_peers::LISTENS;
use crate::result::EventSource;
use crate::util::text::read_lossy;

/// What ends a wait for this file of a process.
pub(crate) fn of(pid: u32, file: &OpenFile) -> EventSource {
    match &file.kind {
        FileKind::Event(_) => EventSource::OwnThreads,
        FileKind::Process(_) => EventSource::ProcessEnd,
        FileKind::IdleTimer => EventSource::Timer,
        FileKind::Socket(inode) if listens(pid, *inode) => EventSource::Client,
        FileKind::Socket(_) => EventSource::Network,
        _ => named(&std::fs::read_link(format!("/proc/{pid}/fd/{}", file.fd)).unwrap_or_default().to_string_lossy()),
    }
}

/// By the name of a file of the kernel's own.
fn named(link: &str) -> EventSource {
    match link {
        "anon_inode:inotify" | "anon_inode:[fanotify]" => EventSource::FileChanges,
        "anon_inode:[signalfd]" => EventSource::Signal,
        "anon_inode:[timerfd]" => EventSource::Timer,
        _ => EventSource::Other,
    }
}

/// Whether a socket waits for clients, by the tables of proc_pid_net(5) in the network namespace of the process.
fn listens(pid: u32, inode: u64) -> bool {
    let has = |table: &str, is: &dyn Fn(&[&str]) -> bool| {
        let text = read_lossy(&format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        text.lines().any(|line| is(&line.split_whitespace().collect::<Vec<_>>()))
    };
    let inode = inode.to_string();
    let of_tcp = |fields: &[&str]| fields.get(3) == Some(&LISTENS) && fields.get(9) == Some(&inode.as_str());
    // Flags (SO_ACCEPTCON, include/uapi/linux/net.h), then the type, the state and the inode.
    let of_unix = |fields: &[&str]| fields.get(3) == Some(&"00010000") && fields.get(6) == Some(&inode.as_str());
    has("tcp", &of_tcp) || has("tcp6", &of_tcp) || has("unix", &of_unix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::start::open_files::open_files;
    use std::os::fd::{AsFd, AsRawFd};

    #[test]
    fn descriptors_without_a_channel_tell_what_they_are_for() {
        let folder = tempfile::tempdir().unwrap();
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let unix = std::os::unix::net::UnixListener::bind(folder.path().join("s")).unwrap();
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let changes = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC).unwrap();
        let pid = std::process::id();
        let files = open_files(pid).unwrap();
        let all = [tcp.as_fd(), unix.as_fd(), udp.as_fd(), changes.as_fd()];
        let found = all.map(|open| {
            let file = files.iter().find(|file| file.fd == open.as_raw_fd() as u32).unwrap();
            of(pid, file)
        });
        use EventSource::{Client, FileChanges, Network};
        assert_eq!(found, [Client, Client, Network, FileChanges]);
        assert_eq!(named("anon_inode:[signalfd]"), EventSource::Signal);
        assert_eq!(named("/dev/null"), EventSource::Other);
    }
}
