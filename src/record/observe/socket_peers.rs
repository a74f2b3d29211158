//! Which Unix socket is connected to which: sock_diag(7).

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};
use std::collections::HashMap;

/// include/uapi/linux/sock_diag.h, netlink.h and unix_diag.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_ALL: u16 = 0x301;
const SHOW_PEER: u32 = 4;
const PEER: u16 = 2;
const HEADER: usize = 16;
const MESSAGE: usize = 16;

/// By the inode of each connected Unix socket, that of its peer. Without an answer of the kernel, none is known.
pub(crate) fn socket_peers() -> HashMap<u64, u64> {
    asked().unwrap_or_default()
}

fn asked() -> rustix::io::Result<HashMap<u64, u64>> {
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
fn add(mut answer: &[u8], peers: &mut HashMap<u64, u64>) -> bool {
    while let (Some(length), Some(kind)) = (word(answer, 0), half(answer, 4)) {
        let length = length as usize;
        let Some(message) = answer.get(HEADER..length) else { return false };
        if kind != usize::from(SOCK_DIAG_BY_FAMILY) {
            return false;
        }
        if let (Some(own), Some(peer)) = (word(message, 4), peer_of(message.get(MESSAGE..).unwrap_or_default())) {
            peers.insert(own.into(), peer.into());
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
        assert_eq!((peers.get(&inode(&one)), peers.get(&inode(&other))), (Some(&inode(&other)), Some(&inode(&one))));
    }

    #[test]
    fn an_answer_that_is_cut_ends_the_search() {
        let mut peers = HashMap::new();
        assert!(add(&[], &mut peers));
        assert!(!add(&[255; 40], &mut peers));
        assert!(peer_of(&[3, 0, 2, 0]).is_none() && peer_of(&[200, 0, 9, 0]).is_none() && peers.is_empty());
    }
}
