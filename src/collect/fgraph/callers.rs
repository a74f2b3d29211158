//! Whose calls the recorded tasks made: those of a process, or of a program in it.

use super::format::GraphEvent;
use super::tree::CallTree;
use crate::process::{ProgramId, Programs};
use crate::profile::{ByProcess, ProcessName};
use crate::result::Warning;
use crate::util::warning::WarningCode;
use std::collections::{HashMap, HashSet};

/// Events with their time, by task.
pub(super) type ByTask = HashMap<u32, Vec<(u64, GraphEvent)>>;

/// Whose calls a task makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
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

/// Add the call trees of `tasks`, and of all tasks that they started, to `trees`. Returns warnings about tasks that the
/// kernel may have dropped.
pub(super) fn add_trees(
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
        code: WarningCode::ExecNotFollowed,
        message: format!(
            "function_graph: process {task} of {process} executed a program from a thread that is not its first; the \
             kernel may have stopped recording its calls there"
        ),
        action: "trace with kprobe, which follows such an exec".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
