//! Article B: the table over buffer sizes, with instructions.

use super::Part;
use crate::document::{Collector, ExecutedOn, Outcome, Processes};
use crate::profile::{Attributor, ProcessName};
use crate::report::chart::{Chart, ChartKind, Point, Series};
use crate::reproduce::facts::Facts;
use crate::reproduce::lab::{Contestant, GuestSetup, Lab, Raced, Taken};
use crate::reproduce::race::without_huge_pages;
use crate::reproduce::result::{ExtraTable, Yield};
use crate::reproduce::verdict::{Missing, Reading, number};
use crate::roles::RoleId;
use crate::run::bench::request;
use crate::util::{size, stats};
use crate::workload::spec::{Amount, Reader, Writer};
use crate::workload::{self, Spec};
use anyhow::Result;
use std::collections::BTreeMap;

/// The part.
pub struct Buffers;

/// Bytes that the article piped for each row.
const PIPED: f64 = 100.0 * (1u64 << 30) as f64;
/// Bytes per call: the article's are the third, fourth and fifth.
const SIZES: [u64; 11] =
    [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];
/// The article's.
const THEIRS: [u64; 3] = [32 << 10, 64 << 10, 128 << 10];
/// Those whose instructions are counted in a full run where no hardware counts them: the article's, and what lies before
/// and after. Each takes a guest of its own, most of whose time is its boot.
const COUNTED: [u64; 6] = [4 << 10, 32 << 10, 64 << 10, 128 << 10, 1 << 20, 4 << 20];
/// Roles of a process that sleeps, is woken or waits for its turn.
const ASLEEP: &[RoleId] =
    &[RoleId::Wait, RoleId::WakeUp, RoleId::Scheduler, RoleId::Psi, RoleId::Idle, RoleId::MutexSleep];

/// Sizes of a quick run.
const QUICK: [u64; 5] = [4 << 10, 32 << 10, 64 << 10, 128 << 10, 1 << 20];

const WRITERS: [&str; 2] = ["write", "vmsplice"];

/// The article's set-up with `block` bytes per call: write(2) into a splicing reader, or vmsplice from huge pages.
fn spec(writer: &str, block: u64, busy_loop: bool) -> Spec {
    match writer {
        "write" => Spec { reader: Reader::Splice, buffer_size: block, ..Spec::default() },
        _ => Spec {
            writer: Writer::Vmsplice,
            reader: Reader::Splice,
            huge_pages: true,
            busy_loop,
            // One call moves one half.
            buffer_size: 2 * block,
            ..Spec::default()
        },
    }
}

/// The same with a pipe of what this user may have at most, where that is less than a block: without CAP_SYS_RESOURCE
/// /proc/sys/fs/pipe-max-size. A guest's process 1 may have any.
fn within_limits(spec: Spec, executed_on: ExecutedOn) -> Spec {
    let most = match spec.writer {
        Writer::Vmsplice if executed_on == ExecutedOn::Hardware => workload::largest_pipe(spec.block()),
        _ => return spec,
    };
    Spec { pipe_size: (most < spec.block()).then_some(most), ..spec }
}

fn key(writer: &str, block: u64) -> String {
    format!("{writer}.{}", size::format(block))
}

impl Part for Buffers {
    fn id(&self) -> &'static str {
        "buffers"
    }

    fn title(&self) -> &'static str {
        "Buffer sizes"
    }

    fn about(&self) -> &'static str {
        "article B: throughput, system calls and instructions over buffer sizes"
    }

    fn run(&self, lab: &Lab<'_>, facts: &Facts) -> Result<Yield> {
        let mut out = Yield::default();
        let window = Amount::DurationNs(lab.settings.window_ns());
        let mut contestants = Vec::new();
        let sizes: &[u64] = if lab.settings.quick { &QUICK } else { &SIZES };
        for &block in sizes {
            for writer in WRITERS {
                let spec = Spec { amount: window, ..spec(writer, block, true) };
                let spec = within_limits(spec, lab.executed_on());
                contestants.push(Contestant { id: key(writer, block), spec });
            }
        }
        let raced = lab.race("sizes", &contestants, lab.settings.rounds())?;
        let by_key: BTreeMap<&str, &Raced> = raced.iter().map(|raced| (raced.id.as_str(), raced)).collect();
        for (id, raced) in &by_key {
            insert(&mut out, facts, format!("B.buffers.speed.{id}"), raced.speed());
            insert(&mut out, facts, format!("B.buffers.calls.{id}"), calls(raced));
        }
        insert(&mut out, facts, "B.speed.zeroes".into(), by_key["write.32K"].speed());
        insert(&mut out, facts, "B.speed.reference".into(), by_key["vmsplice.128K"].speed());
        let counts = instructions(lab, &raced)?;
        for (id, count) in &counts {
            let total = count.clone().map(|count| count.total());
            insert(&mut out, facts, format!("B.buffers.instructions.{id}"), total);
            insert(&mut out, facts, format!("B.buffers.percall.{id}"), count.clone().map(|count| count.per_call()));
        }
        out.charts.extend(chart(facts, &raced));
        out.tables.push(table(&raced, &counts));
        findings(&mut out, &by_key);
        out.notes.push(
            "Bytes per call: a vmsplice buffer is two halves of that size, in huge pages, in a busy loop; write(2) blocks. \
             Both readers splice into /dev/null, as pv and the article's reference reader do."
                .into(),
        );
        if let Some(most) = contestants.iter().find_map(|contestant| contestant.spec.pipe_size) {
            out.notes.push(format!(
                "A pipe of this user holds {} at most (more takes CAP_SYS_RESOURCE, or /proc/sys/fs/pipe-max-size raised), and \
                 a call of vmsplice moves no more than the pipe holds: the speeds of rows that ask for more are of that. \
                 Instructions counted in a guest are not: there the pipe is as large as a block.",
                size::format(most)
            ));
        }
        if counts.values().any(|count| count.as_ref().is_ok_and(|count| count.executed_on == ExecutedOn::Tcg)) {
            out.notes.push(
                "Each count of instructions boots a guest of its own, which takes longer than all the pairs of a size: \
                 they are counted for some sizes. For the others: pipeprof sweep --collect insn --kernel 6.1 --reader \
                 splice --buffer-size 4K..4M, and the same with --mode vmsplice-huge --buffer-size 8K..8M, of which one \
                 call moves one half."
                    .into(),
            );
        }
        Ok(out)
    }
}

fn insert(out: &mut Yield, facts: &Facts, id: String, reading: Taken<Reading>) {
    if facts.find(&id).is_some() {
        out.readings.insert(id, reading);
    }
}

/// All of the writer's calls for 100 GiB, as a tracer counts them.
fn calls(raced: &Raced) -> Taken<Reading> {
    let of = |pair: &Processes| {
        (pair.writer().bytes > 0).then(|| pair.writer().calls as f64 / pair.writer().bytes as f64 * PIPED)
    };
    // Of the pair whose calls are the median, not of that whose speed is: EAGAIN differs much from pair to pair.
    let moving = raced.pairs.iter().filter(|pair| pair.writer().bytes > 0);
    let typical = stats::median_by(moving, |pair| of(pair).unwrap_or_default());
    let what = typical.map_or_else(String::new, |pair| {
        format!(
            "all calls: EAGAIN answered {:.1} % of them, {} moved bytes",
            again_percent(pair),
            number(PIPED / moved(pair))
        )
    });
    // A count: emulation does not change what it says.
    match raced.reading("calls", &what, of) {
        Err(missing) if raced.executed_on == ExecutedOn::Tcg && without_huge_pages(&raced.caveats(), "").is_none() => {
            let runs: Vec<f64> = raced.pairs.iter().filter_map(of).collect();
            Reading::median(runs, "calls", raced.executed_on, &what).ok_or(missing)
        }
        reading => reading,
    }
}

/// Bytes of each call that moved any.
fn moved(pair: &Processes) -> f64 {
    let moving = pair.writer().calls.saturating_sub(pair.writer().eagain).max(1);
    pair.writer().bytes as f64 / moving as f64
}

fn again_percent(pair: &Processes) -> f64 {
    pair.writer().eagain as f64 / pair.writer().calls.max(1) as f64 * 100.0
}

/// Instructions of the writer per call.
#[derive(Debug, Clone, PartialEq)]
struct Count {
    per_call: f64,
    /// Without sleeping, being woken and waiting.
    awake_per_call: f64,
    per_byte: f64,
    /// Which of the two per call stands beside the article's.
    judged_awake: bool,
    executed_on: ExecutedOn,
    how: String,
}

impl Count {
    fn judged(&self) -> f64 {
        if self.judged_awake { self.awake_per_call } else { self.per_call }
    }

    fn per_call(&self) -> Reading {
        Reading::single(self.judged(), "instructions per call", self.executed_on, &self.how)
    }

    fn total(&self) -> Reading {
        let part = self.judged() / self.per_call.max(1.0);
        Reading::single(self.per_byte * part * PIPED, "instructions", self.executed_on, &self.how)
    }
}

type Counts = BTreeMap<String, Taken<Count>>;

/// From hardware counters where there are any, else counted in a guest.
fn instructions(lab: &Lab<'_>, raced: &[Raced]) -> Result<Counts> {
    let mut counts = Counts::new();
    for block in SIZES {
        for writer in WRITERS {
            let id = key(writer, block);
            let pair = raced.iter().find(|raced| raced.id == id).and_then(Raced::typical);
            let counted = pair.and_then(|pair| Some((pair, *pair.writer().counters.get("instructions")?)));
            if let Some((pair, count)) = counted.filter(|(pair, _)| pair.writer().calls > 0) {
                let per_call = count as f64 / pair.writer().calls as f64;
                let count = Count {
                    per_call,
                    awake_per_call: per_call,
                    per_byte: count as f64 / pair.writer().bytes.max(1) as f64,
                    judged_awake: false,
                    executed_on: lab.executed_on(),
                    how: "hardware counter of the median pair".into(),
                };
                counts.insert(id, Ok(count));
            } else if COUNTED.contains(&block) && (!lab.settings.quick || THEIRS.contains(&block)) {
                counts.insert(id, exact(lab, writer, block)?);
            }
        }
    }
    Ok(counts)
}

fn exact(lab: &Lab<'_>, writer: &str, block: u64) -> Result<Taken<Count>> {
    if lab.settings.quick && (writer, block) != (WRITERS[0], THEIRS[0]) {
        let why = "left out by --quick: counted in a guest";
        return Ok(Err(Missing::new(why, "pipeprof reproduce buffers")));
    }
    // Without a busy loop: two emulated CPUs take turns, and one that spins for the other only burns its turn.
    // Cost per call is constant; a short window has fewer timers of the guest in it.
    let calls = ((64 << 20) / block).clamp(16, 1024);
    let spec = Spec { amount: Amount::Calls(calls), warmup_bytes: 8 << 20, ..spec(writer, block, false) };
    let name = format!("instructions of {writer}, {}", size::format(block));
    // As the article's machine: mitigations off, copies by rep movsb.
    let setup = GuestSetup { cpus: Some(1), cpu: Some("qemu64,+erms".into()), append: vec!["mitigations=off".into()] };
    let request = request(&name, &spec, vec![Collector::Insn], 1);
    Ok(lab.exact(&name, &request, &setup)?.and_then(|outcome| count(&outcome, writer)))
}

fn count(outcome: &Outcome, writer: &str) -> Taken<Count> {
    if let Some(missing) = without_huge_pages(&outcome.document.warnings, &outcome.document.command) {
        return Err(missing);
    }
    let process = outcome.document.processes.writer();
    let profile = outcome.profiles.iter().find(|p| p.process == ProcessName::WRITER && p.collector == "insn");
    let Some(profile) = profile.filter(|_| process.calls > 0 && process.bytes > 0) else {
        return Err(Missing::new("the guest counted nothing", outcome.document.command.clone()));
    };
    let attributor = Attributor::new(&profile.stacks, profile.skid);
    let asleep: u64 = profile
        .stacks
        .iter()
        .filter(|(stack, _)| ASLEEP.contains(&attributor.place(stack).role.id))
        .map(|(_, weight)| weight)
        .sum();
    let (total, calls) = (profile.stacks.total() as f64, process.calls as f64);
    let release = &outcome.document.kernel.release;
    let judged_awake = writer == "vmsplice";
    let which = if judged_awake {
        "without sleeping and waking, which the article's busy loop on two CPUs does not do"
    } else {
        "sleeping and waking included"
    };
    Ok(Count {
        per_call: total / calls,
        awake_per_call: (total - asleep as f64) / calls,
        per_byte: total / process.bytes as f64,
        judged_awake,
        executed_on: ExecutedOn::Tcg,
        how: format!("instruction collector, {release}, mitigations=off, one emulated CPU; {which}"),
    })
}

fn table(raced: &[Raced], counts: &Counts) -> ExtraTable {
    let n = raced.iter().map(|raced| raced.pairs.len()).max().unwrap_or(0);
    let note = format!(
        "Throughput: median of {n} fresh pairs, all sizes interleaved, with the median absolute deviation. Calls and CPU \
         time of the writer in the median pair; moved: bytes per call but for those that EAGAIN answered (a call moves no more than \
         the pipe holds). Instructions of the writer: hardware counter, or exact in the guest \
         (emulated: instructions are not time) whole and without sleeping and waking."
    );
    let header = [
        "writer",
        "bytes per call, asked",
        "moved, KiB",
        "GiB/s",
        "spread",
        "calls per MiB",
        "EAGAIN",
        "CPU, ns/KiB",
        "instructions per call",
        "awake",
    ];
    let mut table = ExtraTable::new("Over buffer sizes on this machine", &header, note);
    for writer in WRITERS {
        for block in SIZES {
            let id = key(writer, block);
            let Some(entry) = raced.iter().find(|raced| raced.id == id) else { continue };
            let mut row = vec![writer.to_owned(), size::format(block)];
            match (entry.speed(), entry.typical()) {
                (Ok(speed), Some(pair)) => {
                    let process = pair.writer();
                    let mib = process.bytes.max(1) as f64 / f64::from(1 << 20);
                    row.extend([
                        number(moved(pair) / 1024.0),
                        number(speed.value),
                        speed.spread_percent().map_or_else(|| "-".to_owned(), |percent| format!("±{percent:.1} %")),
                        number(process.calls as f64 / mib),
                        format!("{:.1} %", again_percent(pair)),
                        number((process.user_ns + process.system_ns) as f64 / mib / 1024.0),
                    ]);
                }
                (Err(missing), _) => row.extend(["-".to_owned(), "-".to_owned(), missing.why]),
                (Ok(_), None) => {}
            }
            row.resize(8, String::new());
            match counts.get(&id) {
                Some(Ok(count)) => row.extend([number(count.per_call), number(count.awake_per_call)]),
                _ => row.extend(["-".to_owned(), "-".to_owned()]),
            }
            table.rows.push(row);
        }
    }
    table
}

fn chart(facts: &Facts, raced: &[Raced]) -> Option<Chart> {
    const GIB_PER_GB: f64 = 1e9 / (1u64 << 30) as f64;
    let mut series = Vec::new();
    let mut n = 0;
    for writer in WRITERS {
        let mut points = Vec::new();
        for block in SIZES {
            let id = key(writer, block);
            let Some(Ok(speed)) = raced.iter().find(|raced| raced.id == id).map(Raced::speed) else { continue };
            n = speed.runs.len();
            points.push(Point { label: size::format(block), y: speed.value, span: Some(speed.range()) });
        }
        series.push(Series { name: format!("{writer}, here"), points });
    }
    if series.iter().all(|series| series.points.is_empty()) {
        return None;
    }
    for writer in WRITERS {
        let theirs = THEIRS.iter().filter_map(|block| {
            let (_, fact) = facts.find(&format!("B.buffers.speed.{}", key(writer, *block)))?;
            Some(Point { label: size::format(*block), y: fact.value? * GIB_PER_GB, span: None })
        });
        series.push(Series { name: format!("{writer}, article B"), points: theirs.collect() });
    }
    let machine = facts.articles.get("B").map_or("", |article| article.machine.as_str());
    Some(Chart {
        id: "buffers".into(),
        title: "Throughput over buffer sizes".into(),
        kind: ChartKind::Lines,
        y: "GiB/s".into(),
        x: "bytes per system call".into(),
        series,
        caption: format!("Ours: median of {n} fresh pairs, bars from least to greatest. Theirs: {machine}."),
    })
}

fn findings(out: &mut Yield, by_key: &BTreeMap<&str, &Raced>) {
    for writer in WRITERS {
        let mut speeds: Vec<(u64, f64)> = Vec::new();
        for block in SIZES {
            if let Some(Ok(speed)) = by_key.get(key(writer, block).as_str()).map(|raced| raced.speed()) {
                speeds.push((block, speed.value));
            }
        }
        let best = speeds.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
        if let (Some((block, speed)), Some((least, slowest))) = (best, speeds.first()) {
            out.findings.push(format!(
                "{writer} is fastest with {} per call ({} GiB/s), {} times what it moves with {}.",
                size::format(block),
                number(speed),
                number(speed / slowest),
                size::format(*least)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_calls_count_and_those_that_moved_nothing_stand_beside_them() {
        let pair = |eagain: u64, ns: u64| {
            let mut pair = Processes { window_ns: ns, ..Processes::default() };
            (pair.of_mut(ProcessName::WRITER).bytes, pair.of_mut(ProcessName::READER).bytes) = (1 << 30, 1 << 30);
            (pair.of_mut(ProcessName::WRITER).calls, pair.of_mut(ProcessName::WRITER).eagain) =
                ((1 << 13) + eagain, eagain);
            pair
        };
        let mut raced = Raced {
            id: key("vmsplice", 128 << 10),
            spec: spec("vmsplice", 128 << 10, true),
            // The pair of the median speed is not the one of the median calls.
            pairs: vec![pair(0, 2), pair(1 << 13, 1), pair(1 << 14, 3)],
            executed_on: ExecutedOn::Hardware,
            failed: None,
        };
        let reading = calls(&raced).unwrap();
        assert_eq!(reading.value, 100.0 * f64::from(1 << 14));
        assert!(reading.how.ends_with("EAGAIN answered 50.0 % of them, 819,200 moved bytes"), "{}", reading.how);
        // A count holds under emulation, but not of other pages.
        raced.executed_on = ExecutedOn::Tcg;
        assert!(calls(&raced).is_ok());
        raced.pairs[0].of_mut(ProcessName::WRITER).huge_pages = Some(crate::document::GotAsked { got: 0, asked: 1 });
        assert!(calls(&raced).is_err());
    }
}
