//! Who has a port to which another process could not bind a socket.

use crate::record::observe::file_locks::named;
use crate::record::start::open_files::{FileKind, open_files};
use crate::record::start::socket_peers::LISTENS;
use crate::result::UsedPort;
use crate::util::process_stat;
use crate::util::text::read_lossy;
use std::collections::BTreeSet;

/// The state of sockets in the tables of proc_pid_net(5) that are bound only (UDP).
const BOUND: &str = "07";

/// Who has the port open now, in the network namespace of pipeprof.
pub(crate) fn used(port: u16) -> UsedPort {
    let tables = [("tcp", LISTENS), ("tcp6", LISTENS), ("udp", BOUND), ("udp6", BOUND)];
    let table = |(table, state): (&str, &str)| {
        bound_to(&read_lossy(&format!("/proc/net/{table}")).unwrap_or_default(), port, state)
    };
    let sockets: BTreeSet<u64> = tables.into_iter().flat_map(table).collect();
    let is_one = |kind: &FileKind| matches!(kind, FileKind::Socket(inode) if sockets.contains(inode));
    let has = |pid: &u32| open_files(*pid).is_ok_and(|files| files.iter().any(|file| is_one(&file.kind)));
    let holders =
        if sockets.is_empty() { Vec::new() } else { process_stat::ids().filter(has).filter_map(named).collect() };
    UsedPort { port, holders }
}

/// The inodes of sockets in this state with this port, in `sl local remote st ... inode`.
fn bound_to(table: &str, port: u16, state: &str) -> Vec<u64> {
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, own) = fields.get(1)?.split_once(':')?;
        let is_it = u16::from_str_radix(own, 16) == Ok(port) && fields.get(3) == Some(&state);
        fields.get(9).filter(|_| is_it)?.parse().ok()
    };
    table.lines().filter_map(socket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_has_the_port() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let own = |found: UsedPort| found.holders.iter().any(|holder| holder.pid == std::process::id());
        assert!(own(used(port)));
        drop(server);
        assert!(!own(used(port)));
    }
}
