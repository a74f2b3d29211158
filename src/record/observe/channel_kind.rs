//! What the devices of channels tell: bpf/record_channels.h.

use crate::record::observe::raw::{PR_SOCKET_DATAGRAM, PR_SOCKET_PACKET, PR_SOCKET_STREAM, PR_SOCKET_TCP, PR_TERMINAL};
use crate::record::start::launch::MadePipe;
use crate::result::ChannelKind;
use std::sync::OnceLock;

/// The kind of a channel on this device. FIFOs are on those of file systems.
pub(crate) fn kind_of(device: u32) -> ChannelKind {
    match device as usize {
        PR_SOCKET_STREAM => ChannelKind::UnixStream,
        PR_SOCKET_DATAGRAM => ChannelKind::UnixDatagram,
        PR_SOCKET_PACKET => ChannelKind::UnixPacket,
        PR_SOCKET_TCP => ChannelKind::Tcp,
        PR_TERMINAL => ChannelKind::Pty,
        _ if of_pipes().is_none_or(|pipes| pipes == device) => ChannelKind::Pipe,
        _ => ChannelKind::Fifo,
    }
}

/// The device of a Unix socket of this type: see socket(2).
pub(crate) fn of_socket(kind: u8) -> u32 {
    (PR_SOCKET_STREAM - 1 + usize::from(kind)) as u32
}

/// The device of TCP connections.
pub(crate) const TCP: u32 = PR_SOCKET_TCP as u32;

/// The device of pipes without a name.
fn of_pipes() -> Option<u32> {
    static DEVICE: OnceLock<Option<u32>> = OnceLock::new();
    *DEVICE.get_or_init(|| {
        let (reader, _writer) = std::io::pipe().ok()?;
        Some(MadePipe::of(&rustix::fs::fstat(&reader).ok()?).device)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_and_pipes_are_told_apart_by_their_device() {
        let sockets =
            [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET].map(|kind| kind_of(of_socket(kind as u8)));
        assert_eq!(sockets, [ChannelKind::UnixStream, ChannelKind::UnixDatagram, ChannelKind::UnixPacket]);
        assert_eq!(kind_of(of_pipes().unwrap()), ChannelKind::Pipe);
        assert_eq!(kind_of(of_pipes().unwrap() + 1), ChannelKind::Fifo);
    }
}
