//! Which socket is connected to which: Unix sockets by sock_diag(7), TCP of this machine by /proc/net/tcp.

use crate::record::observe::channel_kind::{TCP, of_socket};
use crate::util::text::read_lossy;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};
use std::collections::HashMap;

/// include/uapi/linux/sock_diag.h, netlink.h and unix_diag.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_ALL: u16 = 0x301;
const SHOW_PEER: u32 = 4;
const PEER: u16 = 2;
const HEADER: usize = 16;
const MESSAGE: usize = 16;

/// The other end of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketPeer {
    pub inode: u64,
    /// As the BPF programs have it.
    pub device: u32,
}

/// By the inode of each connected socket, its peer on this machine. Without an answer of the kernel, none is known.
pub(crate) fn socket_peers() -> HashMap<u64, SocketPeer> {
    let mut peers = asked().unwrap_or_default();
    let tables = ["tcp", "tcp6"].map(|table| read_lossy(&format!("/proc/net/{table}")).unwrap_or_default());
    let connected = tcp_peers(&tables.concat());
    peers.extend(connected.into_iter().map(|(own, inode)| (own, SocketPeer { inode, device: TCP })));
    peers
}

/// The same for pairs of Unix sockets of which none has a name, as socketpair(2) makes them. Others lead to daemons, and
/// these to everybody.
pub(crate) fn unnamed_pairs() -> HashMap<u64, u64> {
    let table = read_lossy("/proc/net/unix").unwrap_or_default();
    // Num RefCount Protocol Flags Type St Inode Path
    let named = table.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(6);
        let inode: u64 = fields.next()?.parse().ok()?;
        fields.next().map(|_| inode)
    });
    let peers = asked().unwrap_or_default();
    let mut pairs: HashMap<u64, u64> = peers.into_iter().map(|(own, peer)| (own, peer.inode)).collect();
    for inode in named {
        if let Some(peer) = pairs.remove(&inode) {
            pairs.remove(&peer);
        }
    }
    pairs
}

/// Connections of which both ends are in a table of proc_pid_net(5), `sl local remote st ... inode`.
fn tcp_peers(table: &str) -> HashMap<u64, u64> {
    // An address of IPv4 in a socket of IPv6.
    let plain = |address: &str| address.strip_prefix("0000000000000000FFFF0000").unwrap_or(address).to_owned();
    let ends: HashMap<(String, String), u64> = table
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let inode: u64 = fields.get(9)?.parse().ok()?;
            (inode > 0).then(|| ((plain(fields[1]), plain(fields[2])), inode))
        })
        .collect();
    let peer = |((local, remote), inode): (&(String, String), &u64)| {
        Some((*inode, *ends.get(&(remote.clone(), local.clone()))?))
    };
    ends.iter().filter_map(peer).collect()
}

fn asked() -> rustix::io::Result<HashMap<u64, SocketPeer>> {
    let kernel = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    let mut request = Vec::with_capacity(HEADER + 24);
    let family = u32::from(AddressFamily::UNIX.as_raw());
    let words = [40, u32::from(SOCK_DIAG_BY_FAMILY) | u32::from(REQUEST_ALL) << 16, 1, 0];
    let words = words.into_iter().chain([family, u32::MAX, 0, SHOW_PEER, 0, 0]);
    words.for_each(|word: u32| request.extend(word.to_ne_bytes()));
    send(&kernel, &request, SendFlags::empty())?;
    let mut peers = HashMap::new();
    let mut answer = vec![0; 1 << 16];
    loop {
        let (length, _) = recv(&kernel, &mut answer[..], RecvFlags::empty())?;
        if !add(&answer[..length], &mut peers) {
            return Ok(peers);
        }
    }
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?).into())
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Add the peers of one answer. Returns whether there are more answers.
fn add(mut answer: &[u8], peers: &mut HashMap<u64, SocketPeer>) -> bool {
    while let (Some(length), Some(kind)) = (word(answer, 0), half(answer, 4)) {
        let length = length as usize;
        let Some(message) = answer.get(HEADER..length) else { return false };
        if kind != usize::from(SOCK_DIAG_BY_FAMILY) {
            return false;
        }
        if let (Some(own), Some(peer)) = (word(message, 4), peer_of(message.get(MESSAGE..).unwrap_or_default())) {
            let device = of_socket(message.get(1).copied().unwrap_or_default());
            peers.insert(own.into(), SocketPeer { inode: peer.into(), device });
        }
        answer = answer.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

fn peer_of(mut attributes: &[u8]) -> Option<u32> {
    while let Some(length) = half(attributes, 0).filter(|length| *length >= 4) {
        if half(attributes, 2) == Some(PEER.into()) {
            return word(attributes, 4).filter(|peer| *peer != 0);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_ends_of_a_pair_are_each_others_peers() {
        let (one, other) = UnixStream::pair().unwrap();
        let inode = |socket: &UnixStream| rustix::fs::fstat(socket).unwrap().st_ino;
        let peers = socket_peers();
        let peer = |socket| SocketPeer { inode: inode(socket), device: of_socket(libc::SOCK_STREAM as u8) };
        assert_eq!((peers[&inode(&one)], peers[&inode(&other)]), (peer(&other), peer(&one)));
    }

    #[test]
    fn the_ends_of_a_connection_are_each_others_peers() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let (accepted, _) = server.accept().unwrap();
        let [client, accepted] = [&client, &accepted].map(|socket| rustix::fs::fstat(socket).unwrap().st_ino);
        let peers = socket_peers();
        assert_eq!((peers[&client].inode, peers[&accepted].inode), (accepted, client));
        let mixed = "0: 0100007F:1F90 0100007F:A 01 0 0 0 0 0 7\n\
                     0: 0000000000000000FFFF00000100007F:A 0000000000000000FFFF00000100007F:1F90 01 0 0 0 0 0 8\n\
                     0: 0100007F:1 0200000A:16 01 0 0 0 0 0 9\n";
        assert_eq!(tcp_peers(mixed), HashMap::from([(7, 8), (8, 7)]));
    }

    #[test]
    fn a_socket_with_a_name_is_no_pair() {
        let folder = tempfile::tempdir().unwrap();
        let server = std::os::unix::net::UnixListener::bind(folder.path().join("s")).unwrap();
        let client = UnixStream::connect(folder.path().join("s")).unwrap();
        let _accepted = server.accept().unwrap();
        let (one, other) = UnixStream::pair().unwrap();
        let inode = |socket: &UnixStream| rustix::fs::fstat(socket).unwrap().st_ino;
        let pairs = unnamed_pairs();
        assert_eq!(pairs.get(&inode(&one)), Some(&inode(&other)));
        assert_eq!(pairs.get(&inode(&client)), None);
    }

    #[test]
    fn an_answer_that_is_cut_ends_the_search() {
        let mut peers = HashMap::new();
        assert!(add(&[], &mut peers));
        assert!(!add(&[255; 40], &mut peers));
        assert!(peer_of(&[3, 0, 2, 0]).is_none() && peer_of(&[200, 0, 9, 0]).is_none() && peers.is_empty());
    }
}
