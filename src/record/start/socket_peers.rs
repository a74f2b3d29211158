//! Which socket is connected to which: Unix sockets by sock_diag(7), TCP of this machine by /proc/net/tcp.

use crate::record::observe::channel_kind::{TCP, of_socket};
use crate::util::text::read_lossy;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};
use std::collections::HashMap;

/// include/uapi/linux/sock_diag.h, netlink.h and unix_diag.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_ALL: u16 = 0x301;
/// Names, peers and, of a socket that listens, those that wait for `accept`.
const SHOW: u32 = 1 | 4 | 8;
const NAME: usize = 0;
const PEER: usize = 2;
const WAITING: usize = 3;
const HEADER: usize = 16;
const MESSAGE: usize = 16;

/// The other end of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketPeer {
    pub inode: u64,
    /// As the BPF programs have it.
    pub device: u32,
    /// The numbers of the channels to the socket itself and to its peer, as the BPF programs have them.
    pub channels: [u64; 2],
    /// Whether `inode` is that of a socket which listens, because the connection has not been accepted.
    pub unaccepted: bool,
}

/// Unix sockets.
#[derive(Debug, Default)]
struct UnixSockets {
    /// Of those that are connected, by their inodes.
    peers: HashMap<u64, SocketPeer>,
    /// Those with a name.
    named: Vec<u64>,
}

/// By the inode of each connected socket, its peer on this machine. Without an answer of the kernel, none is known.
pub(crate) fn socket_peers() -> HashMap<u64, SocketPeer> {
    let mut peers = asked().unwrap_or_default().peers;
    let tables = ["tcp", "tcp6"].map(|table| read_lossy(&format!("/proc/net/{table}")).unwrap_or_default());
    // The tables are those of this network namespace.
    let space = rustix::fs::stat("/proc/self/ns/net").map_or(0, |stat| stat.st_ino);
    peers.extend(tcp_peers(&tables.concat(), space));
    peers
}

/// The same for pairs of Unix sockets of which none has a name, as socketpair(2) makes them. Others lead to daemons, and
/// these to everybody.
pub(crate) fn unnamed_pairs() -> HashMap<u64, u64> {
    asked().unwrap_or_default().into_pairs()
}

/// An end of a TCP connection, as proc_pid_net(5) has it: `0100007F:1F90`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct TcpEnd {
    /// Of IPv6, mixed: bpf/record_sockets.bpf.h has the same numbers.
    address: u64,
    port: u16,
}

const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

impl TcpEnd {
    fn parse(text: &str) -> Option<Self> {
        let (address, port) = text.split_once(':')?;
        // An address of IPv4 in a socket of IPv6.
        let plain = address.strip_prefix("0000000000000000FFFF0000").unwrap_or(address);
        let words: Option<Vec<u64>> =
            (0..plain.len()).step_by(8).map(|at| u64::from_str_radix(plain.get(at..at + 8)?, 16).ok()).collect();
        let address = match words?[..] {
            [one] => one,
            [first, second, third, fourth] => (first << 32 | second).wrapping_mul(MIX) ^ (third << 32 | fourth),
            _ => return None,
        };
        Some(Self { address, port: u16::from_str_radix(port, 16).ok()? })
    }

    /// The number of the channel from here to another end, in the network namespace `space`.
    fn channel_to(self, to: Self, space: u64) -> u64 {
        let mixed = self.address.wrapping_mul(31).wrapping_add(to.address).wrapping_mul(31).wrapping_add(space);
        let hash = mixed.wrapping_mul(MIX) & 0xffff_ffff_0000_0000;
        hash | u64::from(to.port) << 16 | u64::from(self.port)
    }
}

/// States in these tables (include/net/tcp_states.h).
const ESTABLISHED: &str = "01";
pub(crate) const LISTENS: &str = "0A";

/// Connections of which both ends are in a table of proc_pid_net(5), `sl local remote st ... inode`.
fn tcp_peers(table: &str, space: u64) -> HashMap<u64, SocketPeer> {
    let mut listening: HashMap<u16, u64> = HashMap::new();
    let mut ends: HashMap<(TcpEnd, TcpEnd), u64> = HashMap::new();
    for line in table.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let Some(inode) = fields.get(9).and_then(|inode| inode.parse().ok()) else { continue };
        let [Some(local), Some(remote)] = [1, 2].map(|at| TcpEnd::parse(fields[at])) else { continue };
        if fields[3] == LISTENS {
            listening.insert(local.port, inode);
        } else if inode > 0 || fields[3] == ESTABLISHED {
            ends.insert((local, remote), inode);
        }
    }
    let peer = |((local, remote), own): (&(TcpEnd, TcpEnd), &u64)| {
        let known = *ends.get(&(*remote, *local))?;
        // Until it is accepted, a connection has no inode.
        let inode = if known == 0 { *listening.get(&remote.port)? } else { known };
        let channels = [remote.channel_to(*local, space), local.channel_to(*remote, space)];
        Some((*own, SocketPeer { inode, device: TCP, channels, unaccepted: known == 0 }))
    };
    ends.iter().filter(|(_, own)| **own > 0).filter_map(peer).collect()
}

impl UnixSockets {
    fn into_pairs(self) -> HashMap<u64, u64> {
        let accepted = self.peers.into_iter().filter(|(_, peer)| !peer.unaccepted);
        let mut pairs: HashMap<u64, u64> = accepted.map(|(own, peer)| (own, peer.inode)).collect();
        for inode in self.named {
            if let Some(peer) = pairs.remove(&inode) {
                pairs.remove(&peer);
            }
        }
        pairs
    }
}

fn asked() -> rustix::io::Result<UnixSockets> {
    let kernel = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    let mut request = Vec::with_capacity(HEADER + 24);
    let family = u32::from(AddressFamily::UNIX.as_raw());
    let words = [40, u32::from(SOCK_DIAG_BY_FAMILY) | u32::from(REQUEST_ALL) << 16, 1, 0];
    let words = words.into_iter().chain([family, u32::MAX, 0, SHOW, 0, 0]);
    words.for_each(|word: u32| request.extend(word.to_ne_bytes()));
    send(&kernel, &request, SendFlags::empty())?;
    let mut sockets = UnixSockets::default();
    let mut answer = vec![0; 1 << 16];
    loop {
        let (length, _) = recv(&kernel, &mut answer[..], RecvFlags::empty())?;
        if !add(&answer[..length], &mut sockets) {
            return Ok(sockets);
        }
    }
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?).into())
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Add the sockets of one answer. Returns whether there are more answers.
fn add(mut answer: &[u8], sockets: &mut UnixSockets) -> bool {
    while let (Some(length), Some(kind)) = (word(answer, 0), half(answer, 4)) {
        let length = length as usize;
        let Some(message) = answer.get(HEADER..length) else { return false };
        if kind != usize::from(SOCK_DIAG_BY_FAMILY) {
            return false;
        }
        let device = of_socket(message.get(1).copied().unwrap_or_default());
        let own = word(message, 4).map_or(0, u64::from);
        for (kind, value) in attributes(message.get(MESSAGE..).unwrap_or_default()) {
            match (kind, word(value, 0)) {
                (NAME, _) => sockets.named.push(own),
                (PEER, Some(peer)) if peer > 0 => {
                    let inode = u64::from(peer);
                    let peer = SocketPeer { inode, device, channels: [own, inode], unaccepted: false };
                    sockets.peers.insert(own, peer);
                }
                (WAITING, _) => {
                    let clients = value.chunks_exact(4).filter_map(|client| word(client, 0)).map(u64::from);
                    // The channel to what is not accepted yet has no number.
                    let peer = |of| SocketPeer { inode: own, device, channels: [of, !of], unaccepted: true };
                    sockets.peers.extend(clients.filter(|client| *client > 0).map(|client| (client, peer(client))));
                }
                _ => {}
            }
        }
        answer = answer.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

/// The attributes of a message, each with its kind.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    std::iter::from_fn(move || {
        let length = half(bytes, 0).filter(|length| *length >= 4)?;
        let found = (half(bytes, 2)?, bytes.get(4..length)?);
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

    #[test]
    fn the_ends_of_a_pair_are_each_others_peers() {
        let (one, other) = UnixStream::pair().unwrap();
        let inode = |socket: &UnixStream| rustix::fs::fstat(socket).unwrap().st_ino;
        let peers = socket_peers();
        let peer = |[own, other]: [&UnixStream; 2]| {
            let channels = [own, other].map(inode);
            let device = of_socket(libc::SOCK_STREAM as u8);
            SocketPeer { inode: channels[1], device, channels, unaccepted: false }
        };
        assert_eq!((peers[&inode(&one)], peers[&inode(&other)]), (peer([&one, &other]), peer([&other, &one])));
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
        let peers = tcp_peers(mixed, 9);
        let inodes: HashMap<u64, u64> = peers.iter().map(|(own, peer)| (*own, peer.inode)).collect();
        assert_eq!(inodes, HashMap::from([(7, 8), (8, 7)]));
        // Each direction has one number, which ends in the ports of sender and receiver.
        let [to_own, to_peer] = peers[&7].channels;
        assert_eq!(peers[&8].channels, [to_peer, to_own]);
        assert_eq!([to_own as u32, to_peer as u32], [0x1f90_000a, 0x000a_1f90]);
    }

    #[test]
    fn what_waits_to_be_accepted_leads_to_who_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let inode = |of: &dyn std::os::fd::AsFd| rustix::fs::fstat(of.as_fd()).unwrap().st_ino;
        let (by_name, by_port) =
            (UnixListener::bind(&path).unwrap(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let clients =
            (UnixStream::connect(&path).unwrap(), std::net::TcpStream::connect(by_port.local_addr().unwrap()).unwrap());
        let found = |own: u64| socket_peers().get(&own).map(|peer| (peer.inode, peer.unaccepted));
        assert_eq!(found(inode(&clients.0)), Some((inode(&by_name), true)));
        assert_eq!(found(inode(&clients.1)), Some((inode(&by_port), true)));
        let accepted = (by_name.accept().unwrap().0, by_port.accept().unwrap().0);
        assert_eq!(found(inode(&clients.0)), Some((inode(&accepted.0), false)));
        assert_eq!(found(inode(&clients.1)), Some((inode(&accepted.1), false)));
    }

    #[test]
    fn a_socket_with_a_name_is_no_pair() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = UnixStream::pair().unwrap();
        let inode = |socket: &UnixStream| rustix::fs::fstat(socket).unwrap().st_ino;
        // Also of one that is nothing but a space, and of an abstract one that looks like a line of /proc/net/unix.
        let line = format!("\n0: 2 0 0 1 3 {} x", inode(&one));
        let abstract_name = SocketAddr::from_abstract_name(line.as_bytes()).unwrap();
        let named = ["s", " "].map(|name| SocketAddr::from_pathname(folder.path().join(name)).unwrap());
        for address in named.into_iter().chain([abstract_name]) {
            let server = UnixListener::bind_addr(&address).unwrap();
            let client = UnixStream::connect_addr(&address).unwrap();
            let (accepted, _) = server.accept().unwrap();
            let pairs = unnamed_pairs();
            assert_eq!(pairs.get(&inode(&one)), Some(&inode(&other)), "{address:?}");
            assert_eq!([&client, &accepted].map(|socket| pairs.get(&inode(socket))), [None; 2], "{address:?}");
        }
    }

    #[test]
    fn an_answer_that_is_cut_ends_the_search() {
        let mut sockets = UnixSockets::default();
        assert!(add(&[], &mut sockets));
        assert!(!add(&[255; 40], &mut sockets));
        let none = |bytes| attributes(bytes).next().is_none();
        assert!(none(&[3, 0, 2, 0]) && none(&[200, 0, 9, 0]) && sockets.peers.is_empty());
    }
}
