//! function_graph: ftrace records every kernel function called by the target's processes, with its duration. This uses
//! the kernel's tracer, without BPF, in a tracefs instance if the kernel allows that.

mod callers;
mod format;
mod ring;
mod tree;

use self::callers::{ByTask, Caller, add_trees};
use self::format::Formats;
use self::tree::CallTree;
use super::tracefs::{self, Session};
use super::{Collect, CollectPrograms, Collected, Programs, Watched, loss_warning, restore_warning};
use crate::kernel::namespace::PidNamespace;
use crate::kernel::symbols::Symbols;
use crate::kernel::tracefs::Tracefs;
use crate::profile::folded::{self, Folded};
use crate::profile::{ByProcess, ProcessName, Unit};
use crate::result::{FunctionCalls, Status};
use crate::roles::{self, RoleId, Skid};
use crate::util::memory;
use crate::util::warning::WarningCode;
use anyhow::{Context as _, Result, ensure};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;

const TRACER: &str = "function_graph";
const NOT_ARMED: &str = "function_graph was not armed";
const FORK_ENABLED: &str = "events/sched/sched_process_fork/enable";
const EXEC_ENABLED: &str = "events/sched/sched_process_exec/enable";
/// Since 5.8.
const NOT_TRACED: &str = "set_ftrace_notrace_pid";
/// Size of all CPUs' buffers together, as a part of the free memory.
const SHARE_OF_MEMORY: u64 = 4;
/// Limits of one CPU's buffer, KiB.
const BUFFER_KIB: std::ops::RangeInclusive<u64> = 1024..=256 * 1024;

/// The `fgraph` collector.
pub struct Fgraph {
    symbols: Arc<Symbols>,
    notes: Vec<String>,
    armed: Option<ArmedTracer>,
}

struct ArmedTracer {
    // The session is dropped before the mount that contains it.
    session: Session,
    tracefs: Tracefs,
    watched: Watched,
    /// All threads that existed at the start, with the number of their process.
    tasks: Vec<(u32, usize)>,
    sleeps_counted: bool,
}

/// Events in one CPU's buffer, and the number of lost events.
#[derive(Debug, Default)]
struct Lost {
    events: u64,
    pages: u64,
}

impl Fgraph {
    pub fn new(symbols: Arc<Symbols>) -> Self {
        Self { symbols, notes: Vec::new(), armed: None }
    }

    fn rows(&self, trees: &ByProcess<Vec<CallTree>>) -> Vec<FunctionCalls> {
        let candidates: HashMap<&str, RoleId> =
            roles::all().iter().flat_map(|role| role.candidates.iter().map(|name| (*name, role.id))).collect();
        let mut all: ByProcess<BTreeMap<u64, FunctionCalls>> = ByProcess::new();
        let nodes = trees.iter().flat_map(|(process, trees)| {
            trees.iter().flat_map(move |tree| (1..tree.nodes.len()).map(move |at| (process, tree, at)))
        });
        for (process, tree, at) in nodes {
            let node = &tree.nodes[at];
            let name = self.name(node.function);
            let Some(role) = candidates.get(roles::base_name(&name)) else { continue };
            let row = all.get_or_default(process).entry(node.function).or_insert_with(|| FunctionCalls {
                total_ns: Some(0),
                self_ns: Some(0),
                ..FunctionCalls::none(process, *role, &name, "function-graph")
            });
            row.calls += node.calls;
            row.missed += node.calls - node.returned - tree.unfinished().filter(|open| *open == at).count() as u64;
            row.total_ns = row.total_ns.map(|sum| sum + node.total_ns);
            row.self_ns = row.self_ns.map(|sum| sum + node.self_ns);
            row.log2_ns.merge(&node.durations);
        }
        all.into_iter().flat_map(|(_, rows)| rows.into_values()).collect()
    }

    fn name(&self, address: u64) -> String {
        self.symbols.at(address).map_or_else(|| super::stacks::UNKNOWN.to_owned(), |at| at.symbol.name.to_owned())
    }

    fn folded(&self, process: ProcessName, tree: &CallTree) -> Folded {
        let mut folded = Folded::new();
        let mut names: HashMap<u64, String> = HashMap::new();
        for (index, node) in tree.nodes.iter().enumerate().skip(1) {
            if node.self_ns == 0 {
                continue;
            }
            let path = tree.path(index);
            for function in &path {
                names.entry(*function).or_insert_with(|| self.name(*function));
            }
            let frames = [process.as_str(), folded::KERNEL]
                .into_iter()
                .chain(path.iter().map(|function| names[function].as_str()));
            folded.add_frames(frames, node.self_ns);
        }
        folded
    }
}

impl Collect for Fgraph {
    fn arm(&mut self, watched: &Watched) -> Result<()> {
        ensure!(
            PidNamespace::own().is_none(),
            "this process is in a PID namespace (a container), and ftrace filters by ids of the initial namespace: \
             run outside of it, or inside a guest with --kernel"
        );
        let tracefs = Tracefs::open()?;
        let session = Session::open(&tracefs, TRACER)?;
        let cpus = super::attach::online_cpus()?.len().max(1) as u64;
        let available = memory::available().unwrap_or(64 << 20) >> 10;
        let kib = (available / SHARE_OF_MEMORY / cpus).clamp(*BUFFER_KIB.start(), *BUFFER_KIB.end());
        session.set("buffer_size_kb", &kib.to_string())?;
        // A full buffer keeps its oldest events, so that the tree is complete from its beginning.
        session.set("options/overwrite", "0")?;
        // The kernel also traces forked tasks; the fork event contains their parent.
        let follow = ["options/function-fork", FORK_ENABLED, EXEC_ENABLED].map(|file| session.set(file, "1"));
        if let Some(error) = follow.into_iter().find_map(Result::err) {
            self.notes.push(format!("new threads and child processes were not watched: {error:#}"));
        }
        let mut tasks = Vec::new();
        loop {
            let before = tasks.len();
            for (process, pid) in
                (0..).zip(&watched.processes).flat_map(|(at, of)| of.pids.iter().map(move |pid| (at, *pid)))
            {
                for thread in super::follow::threads(pid) {
                    if !tasks.contains(&(thread, process)) {
                        tasks.push((thread, process));
                    }
                }
            }
            if tasks.len() == before {
                break;
            }
            let ids: Vec<String> = tasks.iter().map(|(task, _)| task.to_string()).collect();
            session.set("set_ftrace_pid", &ids.join(" "))?;
        }
        session.set("current_tracer", TRACER)?;
        // The option exists only while the tracer is set.
        let sleeps_counted = session.set("options/sleep-time", "0").is_err();
        session.set("tracing_on", "1")?;
        self.armed = Some(ArmedTracer { session, tracefs, watched: watched.clone(), tasks, sleeps_counted });
        Ok(())
    }

    fn finish(&mut self) -> Result<Collected> {
        self.stop()?;
        self.results(&Programs::default())
    }
}

impl CollectPrograms for Fgraph {
    fn started(&self) {
        // Without it, the calls of this process take room in the buffers.
        let own: Vec<String> =
            super::follow::threads(std::process::id()).into_iter().map(|thread| thread.to_string()).collect();
        let _ = self.armed.as_ref().map(|armed| armed.session.set(NOT_TRACED, &own.join(" ")));
    }

    fn stop(&mut self) -> Result<()> {
        let armed = self.armed.as_ref().context(NOT_ARMED)?;
        armed.session.set("tracing_on", "0")
    }

    fn results(&mut self, programs: &Programs) -> Result<Collected> {
        let armed = self.armed.take().context(NOT_ARMED)?;
        let events = armed.tracefs.root().join("events");
        let formats = Formats::parse(
            &tracefs::read(&events.join("ftrace/funcgraph_entry/format"))?,
            &tracefs::read(&events.join("ftrace/funcgraph_exit/format"))?,
            tracefs::read(&events.join("sched/sched_process_fork/format")).ok().as_deref(),
            tracefs::read(&events.join("sched/sched_process_exec/format")).ok().as_deref(),
        )?;
        let (by_task, lost) = read_all(&armed, &formats)?;
        for event in [FORK_ENABLED, EXEC_ENABLED] {
            let _ = armed.session.set(event, "0");
        }
        let ArmedTracer { session, tracefs, watched, tasks, sleeps_counted } = armed;
        let instance = session.is_instance();
        let restored = session.close();
        // The mount contains the session.
        drop(tracefs);
        let caller = |process: usize| match watched.programs {
            true => Caller::Program(programs.first.get(process).copied().unwrap_or_default()),
            false => Caller::Process(watched.processes[process].name),
        };
        let tasks = tasks.into_iter().map(|(task, process)| (task, caller(process))).collect();
        let mut trees = if watched.programs { ByProcess::new() } else { watched.by_process() };
        let dropped = add_trees(&mut trees, tasks, by_task, programs);
        let mut collected = self.collected(&trees, &lost, instance, sleeps_counted);
        collected.warnings.extend(dropped);
        collected.warnings.extend(restored.err().map(|error| restore_warning(format!("{error:#}"))));
        Ok(collected)
    }
}

impl Fgraph {
    fn collected(&mut self, trees: &ByProcess<Vec<CallTree>>, lost: &Lost, instance: bool, sleeps: bool) -> Collected {
        let all = || trees.values().flatten();
        let calls: u64 = all().map(CallTree::calls).sum();
        let unmatched: u64 = all().map(CallTree::unmatched).sum();
        let overrun: u64 = all().map(|tree| tree.overrun).sum();
        let unfinished: usize = all().map(|tree| tree.unfinished().count()).sum();
        let mut notes = vec![
            if instance { "function_graph in a tracefs instance" } else { "function_graph at the top of tracefs" }
                .to_owned(),
            format!("{unfinished} calls had not returned at the end"),
            if sleeps { "time asleep is part of a call" } else { "time asleep is left out of a call" }.to_owned(),
        ];
        let halves: BTreeSet<String> =
            all().flat_map(|tree| tree.unmatched.keys()).map(|function| self.name(*function)).collect();
        if !halves.is_empty() {
            let some: Vec<&str> = halves.iter().map(String::as_str).take(5).collect();
            notes.push(format!("{unmatched} calls without entry or exit: {}", some.join(", ")));
        }
        notes.append(&mut self.notes);
        let total = lost.events + overrun;
        let mut warnings = Vec::new();
        if total + unmatched + lost.pages > 0 {
            let message = format!(
                "function_graph: {} events lost (buffers full), {overrun} calls too deep, \
                 {unmatched} calls without entry or exit, {} pages unreadable",
                lost.events, lost.pages
            );
            warnings.push(loss_warning(WarningCode::CallsLost, message));
        }
        let stacks = trees.map(|process, trees| {
            let mut folded = Folded::new();
            trees.iter().for_each(|tree| folded.merge(&self.folded(process, tree)));
            folded
        });
        Collected {
            status: if calls == 0 || total + unmatched > 0 { Status::Partial } else { Status::Ok },
            reason: match (calls, total + unmatched) {
                (0, _) => Some("no call was recorded".to_owned()),
                (_, 0) => None,
                _ if total == 0 => Some(format!("{unmatched} calls without entry or exit")),
                _ => Some(format!(
                    "{total} events lost: the buffers were full before the end of the window, so the tree is that of \
                     its beginning; move fewer bytes to have it whole"
                )),
            },
            unit: Unit::Nanoseconds,
            skid: Skid::None,
            stacks,
            functions: self.rows(trees),
            samples: calls,
            lost: total + unmatched,
            unresolved: all()
                .flat_map(|tree| tree.nodes.iter().skip(1))
                .filter(|node| self.symbols.at(node.function).is_none())
                .map(|node| node.calls)
                .sum(),
            notes,
            warnings,
        }
    }
}

/// The events of all CPUs by task, and the number of lost events.
fn read_all(armed: &ArmedTracer, formats: &Formats) -> Result<(ByTask, Lost)> {
    let folder = armed.session.folder().join("per_cpu");
    let mut by_task = ByTask::new();
    let mut lost = Lost::default();
    for cpu in super::attach::online_cpus()? {
        let cpu = folder.join(format!("cpu{cpu}"));
        lost.events += lost_events(&tracefs::read(&cpu.join("stats"))?);
        let path = cpu.join("trace_pipe_raw");
        let mut pipe = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path)
            .with_context(|| format!("open {}", path.display()))?;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            // Each read returns one page: 4 KiB, or the size in buffer_subbuf_size_kb.
            let got = match pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(got) => got,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
            };
            let page = ring::page(&buffer[..got]);
            lost.pages += u64::from(page.broken);
            for (time, record) in page.records {
                if let Some((pid, event)) = formats.event(&buffer[record]) {
                    by_task.entry(pid).or_default().push((time, event));
                }
            }
        }
    }
    Ok((by_task, lost))
}

/// Events lost because a CPU's buffer was full, from its `stats`.
fn lost_events(stats: &str) -> u64 {
    let value = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let counted = matches!(name.trim(), "overrun" | "commit overrun" | "dropped events");
        value.trim().parse::<u64>().ok().filter(|_| counted)
    };
    stats.lines().filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_a_buffer() {
        let stats = "entries: 12\noverrun: 3\ncommit overrun: 1\nbytes: 500\noldest event ts: 1.5\n\
            now ts: 2.5\ndropped events: 10\nread events: 0\n";
        assert_eq!(lost_events(stats), 14);
        assert_eq!(lost_events("garbage"), 0);
    }

    #[test]
    fn a_recorded_call_becomes_a_stack() {
        let formats = Formats::parse(format::tests::ENTRY, format::tests::EXIT, None, None).unwrap();
        let record = |kind: u8, function: u64, depth: u8, took: u64| {
            let mut record = vec![kind, 0, 0, 0, 9, 0, 0, 0];
            record.extend_from_slice(&function.to_le_bytes());
            record.extend_from_slice(&[depth, 0, 0, 0]);
            if kind == 10 {
                record.extend_from_slice(&[0; 4]);
                record.extend_from_slice(&1000u64.to_le_bytes());
                record.extend_from_slice(&(1000 + took).to_le_bytes());
            }
            record
        };
        let page = ring::tests::made(
            5,
            &[
                record(11, 0x1100, 0, 0),
                record(11, 0x1200, 1, 0),
                record(10, 0x1200, 1, 30),
                record(10, 0x1100, 0, 100),
            ],
        );
        let found = ring::page(&page);
        let mut tree = CallTree::default();
        for (_, range) in found.records {
            let (pid, event) = formats.event(&page[range]).unwrap();
            assert_eq!(pid, 9);
            tree.add(event);
        }
        let kallsyms = "0000000000001000 T _stext\n0000000000001100 T vfs_write\n0000000000001200 t pipe_write\n0000000000001300 T end\n";
        let fgraph = Fgraph::new(Arc::new(Symbols::read(kallsyms.as_bytes()).unwrap()));
        let text = fgraph.folded(ProcessName::WRITER, &tree).to_text();
        assert_eq!(text, "writer;[kernel];vfs_write 70\nwriter;[kernel];vfs_write;pipe_write 30\n");
        let rows = fgraph.rows(&[(ProcessName::WRITER, vec![tree])].into_iter().collect());
        let write = rows.iter().find(|row| row.symbol == "pipe_write").unwrap();
        assert_eq!((write.calls, write.total_ns, write.missed), (1, Some(30), 0));
    }
}
