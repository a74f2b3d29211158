//! Connections that wait to be accepted.

use crate::profile::few;
use crate::record::say::standstill::waiting::{NAMED, channel_name, full_name, is_hung, is_stuck};
use crate::result::{AwaitedChannel, ChannelKind, Document, LastLook, LastWait, SeenProcess, WaitedFor};
use crate::util::text::{clean, grouped};
use std::collections::{BTreeMap, BTreeSet};

/// `` `bench` (process 4712) waits at 13 TCP connections to port 80 that `httpd` (process 4711) has not accepted: ... ``
pub(super) fn unaccepted(recording: &Document, look: &LastLook) -> Vec<String> {
    let mut of_servers: BTreeMap<u32, Vec<(&LastWait, &AwaitedChannel)>> = BTreeMap::new();
    for wait in &look.waits {
        let WaitedFor::Channels { any, .. } = &wait.awaited else { continue };
        if !wait.process.recorded.is_some_and(|at| is_hung(recording, at)) || !is_stuck(recording, wait) {
            continue;
        }
        for channel in any.iter().filter(|channel| channel.unaccepted) {
            if let Some(server) = channel.holders.first() {
                of_servers.entry(server.process.pid).or_default().push((wait, channel));
            }
        }
    }
    of_servers.values().filter_map(|waits| text(recording, look, waits)).take(NAMED).collect()
}

fn text(recording: &Document, look: &LastLook, waits: &[(&LastWait, &AwaitedChannel)]) -> Option<String> {
    let (_, channel) = waits.first()?;
    let server = channel.holders.first()?;
    let clients: BTreeMap<u32, &SeenProcess> =
        waits.iter().map(|(wait, _)| (wait.process.pid, &wait.process)).collect();
    let connections: BTreeSet<u64> = waits.iter().map(|(_, channel)| channel.inode).collect();
    // A direction is named by its sender first.
    let port = (channel.kind == ChannelKind::Tcp).then_some(channel.inode as u16);
    // It could not get the address that a socket from before its last `exec` has.
    let row = server.process.recorded.and_then(|at| recording.recorded.get(at)).filter(|row| row.execs > 1);
    let is_old = port.is_some() && row.and_then(|row| row.used_port.as_ref()).map(|used| used.port) == port;
    let port = port.map_or_else(String::new, |port| format!(" to port {port}"));
    let what = match connections.len() as u64 {
        1 => format!("for {}{port}", channel_name(channel)),
        several => format!("for {} {}s{port}", grouped(several), channel.kind.noun()),
    };
    let (clients, waits) =
        (few(clients.values().map(|client| full_name(client))), if clients.len() == 1 { "waits" } else { "wait" });
    let name = full_name(&server.process);
    let short = format!("`{}`", clean(&server.process.name));
    let busy = reads_from(look, server.process.pid);
    let remedy = match busy.is_empty() {
        true if is_old => format!(
            "{short} has that from before it executed its program again (`exec`), which does not know it, and could not get the port for a \
             socket of its own (EADDRINUSE): what is not to be kept has to be closed by `exec` (SOCK_CLOEXEC, `set_inheritable(False)`)."
        ),
        true => format!(
            "{short} has to call `accept` until there is no more (EAGAIN) each time that it is told of one, and while it serves others."
        ),
        false => format!(
            "Meanwhile, {short} waits for data from {}, without a limit of time: a limit (SO_RCVTIMEO, `settimeout`), or a thread for each \
             connection, keeps who sends nothing from keeping others waiting.",
            few(busy)
        ),
    };
    Some(format!(
        "{clients} {waits} {what} which {name} has not accepted, although it listens there (its descriptor {}). {remedy}",
        server.fd
    ))
}

/// From whom threads of a server wait for data by connections of its own, and for nothing else.
fn reads_from(look: &LastLook, server: u32) -> BTreeSet<String> {
    let own = look.waits.iter().filter(|wait| wait.process.pid == server);
    let reads = own.filter_map(|wait| match &wait.awaited {
        WaitedFor::Channels { any, others: 0, polled: false, limited: false } => Some(any),
        _ => None,
    });
    let open = reads.flatten().filter(|channel| !channel.room && !channel.unaccepted && !channel.kind.is_pipe());
    open.flat_map(|channel| &channel.holders).map(|holder| full_name(&holder.process)).collect()
}
