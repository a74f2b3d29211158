//! From counts and the path to a [`Document`], without the answer.

use crate::record::model::failures::starts_of;
use crate::record::model::{assemble, assemble::Assembled, ceilings, stages};
use crate::record::observe::counted::RecordedCounts;
use crate::record::observe::file_locks;
use crate::record::observe::full_devices;
use crate::record::observe::left_locks;
use crate::record::observe::looks::{SeenWaits, keep_full};
use crate::record::observe::path::PathEnds;
use crate::record::observe::ports;
use crate::record::observe::raw::PrWho;
use crate::record::say::holders;
use crate::record::start::command_line::{inline_code, script_name};
use crate::record::start::launch::MadePipe;
use crate::record::start::running::RunningProcesses;
use crate::result::check::check_path;
use crate::result::{
    Document, FullDevice, HeldBy, LockedFile, Processes, RecordedChannel, RecordedProcess, SeenProcess, WaitReason,
};
use crate::util::text::fnv1a;
use crate::util::warning::{Warning, WarningCode};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// `recording` with what was counted, the path and what was seen, and the place of each process in it.
pub(crate) fn described(
    recording: Document,
    counted: &RecordedCounts,
    (path, seen): (Option<PathEnds>, Option<SeenWaits>),
    pipes: &[MadePipe],
    running: &RunningProcesses,
) -> (Document, BTreeMap<PrWho, usize>) {
    let span = path.as_ref().map(PathEnds::span);
    let line_of = |who: &PrWho| {
        let own = path.as_ref().map_or(&[][..], |path| path.command_lines.of(who));
        let here = path.as_ref().map_or(who.tgid, |path| path.ids.here(who.tgid));
        if own.is_empty() { running.command_line(here) } else { own }
    };
    // Copies of one process that have ended are a group of that name.
    let copies: HashMap<PrWho, PrWho> = counted
        .processes
        .iter()
        .filter(|(_, process)| process.execs == 0)
        .filter_map(|(who, _)| Some((*who, PrWho { tgid: *counted.members.get(who)?.pids.first()?, ..*who })))
        .collect();
    let script = |who: &PrWho| {
        let line = line_of(copies.get(who).unwrap_or(who));
        script_name(line).or_else(|| inline_code(line)).map_or(0, fnv1a)
    };
    let mut assembled = assemble::assemble(counted, span, pipes, &running.ends, script);
    for (who, at) in &assembled.index {
        let line = line_of(who);
        let known = &mut assembled.processes[*at].args;
        if known.is_empty() {
            line.clone_into(known);
        }
        if line == &known[..] {
            assembled.processes[*at].same_args += 1;
        }
    }
    let begun: HashMap<u32, u64> = starts_of(counted).iter().map(|start| (start.tgid, start.at)).collect();
    for (who, failed) in &mut assembled.failures {
        line_of(who).clone_into(&mut failed.args);
        let same = assembled.index.keys().filter(|other| other.tgid != who.tgid && other.name == who.name);
        let mut later = same.filter(|other| {
            let at = begun.get(&other.tgid).map_or(0, |at| at.saturating_sub(assembled.begin));
            at >= failed.lived_ns[1] && line_of(other) == failed.args
        });
        failed.again = later.next().is_some();
    }
    for process in assembled.processes.iter_mut().filter(|process| process.same_args < 2) {
        process.same_args = 0;
    }
    if let Some(ids) = path.as_ref().map(|path| &path.ids) {
        for process in &mut assembled.processes {
            process.inner_pids = ids.inside(&process.pids);
            process.pids.iter_mut().for_each(|pid| *pid = ids.here(*pid));
        }
        assembled.streams.iter_mut().for_each(|stream| stream.pid = ids.here(stream.pid));
        assembled.named_files.iter_mut().for_each(|file| file.pid = ids.here(file.pid));
        assembled.streams.iter_mut().filter_map(|stream| stream.hole.as_mut()).for_each(|hole| {
            hole.emptied_by = ids.here(hole.emptied_by);
        });
        for (_, failed) in &mut assembled.failures {
            (failed.pid, failed.parent) = (ids.here(failed.pid), ids.here(failed.parent));
        }
        for life in &mut assembled.lives {
            (life.pid, life.parent) = (ids.here(life.pid), ids.here(life.parent));
        }
        let divided = assembled.channels.iter_mut().flat_map(|channel| &mut channel.divided);
        divided.for_each(|reader| reader.pid = ids.here(reader.pid));
    }
    let window = Duration::from_nanos(assembled.window_ns);
    left_locks::find(&mut assembled.named_files, window);
    // All processes are looked at for each.
    let mut full: BTreeMap<u32, Option<FullDevice>> = BTreeMap::new();
    for (who, counts) in &counted.processes {
        // Of several, it is unknown.
        let device = u32::try_from(counts.locked_device).ok().filter(|_| counts.locked > 0);
        if let Some((at, device)) = assembled.index.get(who).zip(device) {
            let mut file = file_locks::held(counts.locked, device);
            let ids = path.as_ref().map(|path| &path.ids);
            let taker = u32::try_from(counts.locked_by).ok().filter(|pid| *pid > 0);
            let taker = taker.map(|pid| ids.map_or(pid, |ids| ids.here(pid)));
            file = file.or_else(|| taken_before(&assembled, counts.locked, taker?));
            let holders = file.iter_mut().flat_map(|file| &mut file.holders);
            holders.for_each(|of| of.recorded = last_row(&assembled.processes, of.pid));
            let refused = ids.map_or(who.tgid, |ids| ids.here(who.tgid));
            assembled.processes[*at].locked_out = file.map(|file| LockedFile { refused, ..file });
        }
        let device = u32::try_from(counts.full_device).ok().filter(|device| *device > 0);
        if let Some((at, device)) = assembled.index.get(who).zip(device) {
            let found = full.entry(device).or_insert_with(|| full_devices::of(device));
            assembled.processes[*at].full_device.clone_from(found);
        }
        let by = u32::try_from(counts.unready_by).ok().filter(|by| *by > 0);
        if let Some((at, by)) = assembled.index.get(who).zip(by) {
            let by = path.as_ref().map_or(by, |path| path.ids.here(by));
            assembled.processes[*at].unready_by = last_row(&assembled.processes, by);
        }
        let port = u16::try_from(counts.port).ok().filter(|port| *port > 0 && counts.in_use > 0);
        if let Some((at, port)) = assembled.index.get(who).zip(port) {
            let mut used = ports::used(port);
            used.holders.iter_mut().for_each(|of| of.recorded = last_row(&assembled.processes, of.pid));
            assembled.processes[*at].used_port = Some(used);
        }
    }
    for process in &mut assembled.processes {
        // What is seen meanwhile says more.
        let stopped = process.waits.contains_key(&WaitReason::Stopped);
        let known = process.held_by.contains_key(&WaitReason::Stopped);
        let by: BTreeSet<HeldBy> = process.pids.iter().filter_map(|pid| running.stopped_by(*pid)).cloned().collect();
        if stopped && !known && !by.is_empty() {
            process.held_by.insert(WaitReason::Stopped, by);
        }
    }
    holders::add(&mut assembled.channels, &running.others);
    let mut last_look = seen.map(|seen| seen.placed(assembled.begin, &assembled.index));
    last_look.iter_mut().for_each(|look| keep_full(look, &assembled.channels));
    holders::add_seen(&mut assembled.channels, last_look.as_ref());
    let mut recording = Document {
        mode: recording.target.text(),
        processes: Processes { window_ns: assembled.window_ns, ..Processes::default() },
        recorded: assembled.processes,
        channels: assembled.channels,
        streams: assembled.streams,
        named_files: assembled.named_files,
        lives: assembled.lives,
        failures: assembled.failures.into_iter().map(|(_, failed)| failed).collect(),
        last_look,
        skipped: counted.skipped,
        unseen_switches: counted.state.map_or(0, |state| state.unseen),
        warnings: recording.warnings.into_iter().chain(assembled.warnings).collect(),
        ..recording
    };
    let attached = !recording.target.pids().is_empty();
    let unended = recording.is_excerpt();
    let moves = |at: usize| recording.channels.iter().any(|channel| channel.is_moved_by(at));
    let stages = stages::stages(&recording);
    let window = [assembled.begin, assembled.begin + recording.processes.window_ns];
    let lost_steps = counted.state.map_or(0, |state| state.lost_steps);
    // A process that only inherited a pipe of those that were asked for does not end the path.
    let has_place = |at: usize| !attached || moves(at) || !recording.channels.iter().any(RecordedChannel::is_used);
    let stage = |at: usize| has_place(at).then(|| stages.of(at).map_or(0, |stage| stage + 1));
    let named = running.asked().len() as u32;
    let found = path.and_then(|ends| ends.path(window, &assembled.index, stage, unended, named));
    recording.path = found;
    let window_ns = recording.processes.window_ns;
    if let Some(path) = &mut recording.path {
        path.lost_steps = lost_steps;
        ceilings::raise(path, &recording.recorded, u64::from(recording.environment.cpus), window_ns);
    }
    if let Some(wrong) = recording.path.as_ref().and_then(|path| check_path(path, window_ns).err()) {
        recording.path = None;
        recording.warnings.push(Warning {
            code: WarningCode::PathWrong,
            message: format!("the critical path is left out, because it does not add up: {wrong}"),
            action: "report this as a defect of pipeprof, with the command".to_owned(),
        });
    }
    (recording, assembled.index)
}

/// The row of the program that a process executed last.
fn last_row(processes: &[RecordedProcess], pid: u32) -> Option<usize> {
    let rows = processes.iter().enumerate().filter(|(_, process)| process.pids.contains(&pid));
    // A row of a shell has the copies of it that executed something else, too, and a shell can be a wrapper of that.
    let last =
        rows.max_by_key(|(_, process)| (process.execs > 0, !process.is_shell(), process.end_ns, process.begin_ns));
    last.map(|(row, _)| row)
}

/// A locked file whose lock nobody has at the end any more, by who had taken it.
fn taken_before(assembled: &Assembled, inode: u64, taker: u32) -> Option<LockedFile> {
    let name = assembled.named_files.iter().find(|file| file.inode == inode && file.error.is_none());
    let by = &assembled.processes[last_row(&assembled.processes, taker)?];
    let holder = SeenProcess { pid: taker, name: by.name.clone(), ..SeenProcess::default() };
    Some(LockedFile { path: name?.path.clone(), holders: vec![holder], ..LockedFile::default() })
}
