//! function_graph: ftrace records every kernel function called by the target's processes, with its duration. This uses
//! the kernel's tracer, without BPF, in a tracefs instance if the kernel allows that.

mod format;
mod ring;
mod tree;

use self::format::{Formats, GraphEvent};
use self::tree::CallTree;
use super::tracefs::{self, Session};
use super::{Collect, CollectPrograms, Collected, ProgramId, Programs, Watched, loss_warning, restore_warning};
use crate::kernel::namespace::PidNamespace;
use crate::kernel::symbols::Symbols;
use crate::kernel::tracefs::Tracefs;
use crate::profile::folded::{self, Folded};
use crate::profile::{ByProcess, ProcessName, Unit};
use crate::result::{FunctionCalls, Status, Warning};
use crate::roles::{self, RoleId, Skid};
use anyhow::{Context as _, Result, ensure};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;

const TRACER: &str = "function_graph";
const FORK_ENABLED: &str = "events/sched/sched_process_fork/enable";
const EXEC_ENABLED: &str = "events/sched/sched_process_exec/enable";
/// Since 5.8.
const NOT_TRACED: &str = "set_ftrace_notrace_pid";
/// The code of the warning that calls after an exec may be missing.
pub const EXEC_DROPPED: &str = "exec-not-followed";
/// Size of all CPUs' buffers together, as a part of the free memory.
const SHARE_OF_MEMORY: u64 = 4;
/// Limits of one CPU's buffer, KiB.
const BUFFER_KIB: std::ops::RangeInclusive<u64> = 1024..=256 * 1024;

/// The `fgraph` collector.
pub(crate) struct Fgraph {
    symbols: Arc<Symbols>,
    notes: Vec<String>,
    armed: Option<ArmedTracer>,
    traced: Option<Traced>,
}

/// Whose calls a task makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    Process(ProcessName),
    Program(ProgramId),
}

impl Caller {
    /// Its name, if it is part of the target.
    fn name(self, programs: &Programs) -> Option<ProcessName> {
        match self {
            Self::Process(name) => Some(name),
            Self::Program(program) => programs.names.get(&program).copied(),
        }
    }

    /// Whose calls the task `child` makes, which it started: a process or a thread.
    fn forks(self, child: u32, programs: &Programs) -> Self {
        match self {
            Self::Program((_, name)) if programs.has_process(child) => Self::Program((child, name)),
            own => own,
        }
    }
}

/// What was recorded.
struct Traced {
    /// All threads that existed at the start.
    tasks: Vec<(u32, usize)>,
    watched: Watched,
    by_task: ByTask,
    lost: Lost,
    instance: bool,
    sleeps_counted: bool,
    warning: Option<Warning>,
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
    pub(crate) fn new(symbols: Arc<Symbols>) -> Self {
        Self { symbols, notes: Vec::new(), armed: None, traced: None }
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
        let kib = (free_memory_kib() / SHARE_OF_MEMORY / cpus).clamp(*BUFFER_KIB.start(), *BUFFER_KIB.end());
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
            for (process, pid) in (0..).zip(&watched.processes).flat_map(|(at, of)| of.pids.iter().map(move |pid| (at, *pid))) {
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
        let armed = self.armed.take().context("function_graph was not armed")?;
        armed.session.set("tracing_on", "0")?;
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
        let warning = session.close().err().map(|error| restore_warning(format!("{error:#}")));
        // The mount contains the session.
        drop(tracefs);
        self.traced = Some(Traced { tasks, watched, by_task, lost, instance, sleeps_counted, warning });
        Ok(())
    }

    fn results(&mut self, programs: &Programs) -> Result<Collected> {
        let traced = self.traced.take().context("function_graph was not armed")?;
        let Traced { tasks, watched, by_task, lost, instance, sleeps_counted, warning } = traced;
        let caller = |process: usize| match programs.first.get(process).filter(|_| watched.programs) {
            Some(first) => Caller::Program(*first),
            None => Caller::Process(watched.processes[process].name),
        };
        let tasks = tasks.into_iter().map(|(task, process)| (task, caller(process))).collect();
        let mut trees = if watched.programs { ByProcess::new() } else { watched.by_process() };
        let dropped = add_trees(&mut trees, tasks, by_task, programs);
        let mut collected = self.collected(&trees, &lost, instance, sleeps_counted);
        collected.warnings.extend(dropped);
        collected.warnings.extend(warning);
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
            warnings.push(loss_warning("calls-lost", message));
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

/// Add the call trees of `tasks`, and of all tasks that they started, to `trees`. Returns warnings about tasks that the
/// kernel may have dropped.
fn add_trees(
    trees: &mut ByProcess<Vec<CallTree>>,
    mut tasks: Vec<(u32, Caller)>,
    mut by_task: ByTask,
    programs: &Programs,
) -> Vec<Warning> {
    let mut known: HashSet<u32> = tasks.iter().map(|(task, _)| *task).collect();
    let mut warnings = Vec::new();
    let mut keep = |caller: Caller, tree| {
        if let Some(name) = caller.name(programs) {
            trees.get_or_default(name).push(tree);
        }
    };
    let mut next = 0;
    while let Some((task, mut caller)) = tasks.get(next).copied() {
        next += 1;
        let mut tree = CallTree::default();
        let mut events = by_task.remove(&task).unwrap_or_default();
        // Events of one CPU are in order, and a stable sort keeps events with equal times in order.
        events.sort_by_key(|(time, _)| *time);
        for (_, event) in events {
            match event {
                GraphEvent::Fork { child } if known.insert(child) => tasks.push((child, caller.forks(child, programs))),
                GraphEvent::Exec { before, name } => {
                    if before != task {
                        warnings.extend(caller.name(programs).map(|process| dropped_by_exec(task, process)));
                    }
                    if let Caller::Program((process, _)) = caller {
                        let after = tree.next();
                        keep(caller, std::mem::replace(&mut tree, after));
                        caller = Caller::Program((process, name));
                    }
                }
                _ => tree.add(event),
            }
        }
        keep(caller, tree);
    }
    warnings
}

/// A warning for a task that the kernel's filter may have dropped. At exec, a thread that is not the first of its process
/// takes over the first one's id, which the option `function-fork` has just removed from `set_ftrace_pid`
/// (kernel/trace/ftrace.c, `ftrace_pid_follow_sched_process_exit`). The next `sched_switch` drops the task.
fn dropped_by_exec(task: u32, process: ProcessName) -> Warning {
    Warning {
        code: EXEC_DROPPED.to_owned(),
        message: format!(
            "function_graph: process {task} of {process} executed a program from a thread that is not its first; the \
             kernel may have stopped recording its calls there"
        ),
        action: "trace with kprobe, which follows such an exec".to_owned(),
    }
}

type ByTask = HashMap<u32, Vec<(u64, GraphEvent)>>;

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

/// Memory available without swapping, in KiB.
fn free_memory_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(64 * 1024)
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

    const EXEC: GraphEvent = GraphEvent::Exec { before: 7, name: [2, 0] };

    #[test]
    fn only_an_exec_that_changes_the_id_is_reported() {
        let tasks = [(7, ProcessName::WRITER), (8, ProcessName::READER)];
        let tasks = tasks.map(|(task, name)| (task, Caller::Process(name))).to_vec();
        let by_task: ByTask = [7, 8, 10].map(|task| (task, vec![(5, EXEC)])).into_iter().collect();
        let warnings = add_trees(&mut ByProcess::new(), tasks, by_task, &Programs::default());
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].message.contains("process 8 of reader"), "{warnings:?}");
    }

    #[test]
    fn calls_are_those_of_the_program_that_made_them() {
        let entry = |function| GraphEvent::Entry { function, depth: 0 };
        let exit = |function| GraphEvent::Exit { function, depth: 0, took: 9, overrun: 0 };
        let call = |function| vec![entry(function), exit(function)];
        let fork = |child| vec![GraphEvent::Fork { child }];
        let events = |parts: &[Vec<GraphEvent>]| (0..).zip(parts.concat()).collect::<Vec<_>>();
        // The starter 5 starts the shell 7, which starts the process 8 with the thread 9, which becomes another program.
        let by_task: ByTask = [
            (5, events(&[call(1), fork(7), call(1)])),
            (7, events(&[call(2), vec![entry(3), EXEC, exit(3)], call(4), fork(8), fork(9)])),
            (8, events(&[call(5), vec![GraphEvent::Exec { before: 8, name: [3, 0] }], call(6)])),
            (9, events(&[call(7)])),
        ]
        .into();
        let names = [((7, [2, 0]), "sh"), ((8, [2, 0]), "sh-2"), ((8, [3, 0]), "cat")];
        let names = names.map(|(id, name)| (id, ProcessName::new(name))).into();
        let programs = Programs { names, first: vec![(0, [0; 2])] };
        let mut found = ByProcess::new();
        let warnings = add_trees(&mut found, vec![(5, Caller::Program((0, [0; 2])))], by_task, &programs);
        let called = |name: &str| -> Vec<u64> {
            let nodes = found.get(ProcessName::new(name)).unwrap().iter().flat_map(|tree| &tree.nodes);
            nodes.filter(|node| node.calls > 0).map(|node| node.function).collect()
        };
        assert_eq!(warnings, []);
        assert_eq!((called("sh"), called("sh-2"), called("cat")), (vec![4, 7], vec![5], vec![6]));
        assert_eq!(found.names().count(), 3);
        assert_eq!(found.values().flatten().map(CallTree::unmatched).sum::<u64>(), 0);
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
