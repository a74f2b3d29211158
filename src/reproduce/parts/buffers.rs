//! Article B: the table over buffer sizes, with instructions.

use super::{skipped_by_quick, writer as writer_of};
use crate::reproduce::parts::prelude::*;
use crate::workload;

/// Bytes that the article piped for each row.
const PIPED: f64 = 100.0 * (1u64 << 30) as f64;
/// Bytes per call.
const SIZES: [u64; 11] =
    [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];
/// Those of a quick reproduction.
const QUICK: [u64; 5] = [4 << 10, 32 << 10, 64 << 10, 128 << 10, 1 << 20];
/// Those of the article.
const ARTICLE: [u64; 3] = [32 << 10, 64 << 10, 128 << 10];
/// Those whose instructions are counted in guests if no hardware counts them. Each takes a guest of its own, which spends
/// most of its time booting.
const COUNTED: [u64; 6] = [4 << 10, 32 << 10, 64 << 10, 128 << 10, 1 << 20, 4 << 20];
/// Roles of a process that waits, is woken up, or is scheduled.
const ASLEEP: &[RoleId] =
    &[RoleId::Wait, RoleId::WakeUp, RoleId::Scheduler, RoleId::Psi, RoleId::Idle, RoleId::MutexSleep];

const WRITERS: [&str; 2] = ["write", "vmsplice"];

/// The article's workload with `block` bytes per call: write(2) into a splicing reader, or vmsplice from huge pages.
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

/// The same with the largest pipe that this user may have, if that is smaller than a block: without CAP_SYS_RESOURCE, the
/// limit is /proc/sys/fs/pipe-max-size. Process 1 of a guest has no limit.
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

pub(super) fn run(lab: &Lab<'_>, facts: &Facts) -> Result<Yield> {
    let mut out = Yield::default();
    let window = Amount::DurationNs(lab.settings.window_ns());
    let sizes: &[u64] = if lab.settings.quick { &QUICK } else { &SIZES };
    let contestant = |writer, block| {
        let spec = within_limits(spec(writer, block, true), lab.executed_on());
        Contestant { id: key(writer, block), spec: Spec { amount: window, ..spec } }
    };
    let contestants: Vec<Contestant> =
        sizes.iter().flat_map(|block| WRITERS.map(|writer| contestant(writer, *block))).collect();
    let race = lab.race("sizes", &contestants, lab.settings.rounds())?;
    let mut insert = |id: String, reading: Taken<Reading>| {
        if facts.find(&id).is_some() {
            out.readings.insert(id, reading);
        }
    };
    for raced in &race.0 {
        insert(format!("B.buffers.speed.{}", raced.id), raced.speed());
        insert(format!("B.buffers.calls.{}", raced.id), calls(raced));
    }
    insert("B.speed.zeroes".into(), race.speed("write.32K"));
    insert("B.speed.reference".into(), race.speed("vmsplice.128K"));
    if let Some(reading) = super::programs::fizzbuzz(lab)? {
        insert("B.speed.fizzbuzz".into(), reading);
    }
    let counts = instructions(lab, &race)?;
    for (id, count) in &counts {
        insert(
            format!("B.buffers.instructions.{id}"),
            count.as_ref().map(InstructionCount::total).map_err(Clone::clone),
        );
        insert(format!("B.buffers.percall.{id}"), count.as_ref().map(InstructionCount::per_call).map_err(Clone::clone));
    }
    out.charts.extend(chart(facts, &race));
    out.tables.push(table(&race, &counts));
    out.findings.extend(WRITERS.iter().filter_map(|writer| fastest(&race, writer)));
    out.notes.push(
        "The buffer of vmsplice has two halves, each as large as one call, in huge pages; its writer and reader use a busy \
         loop. write(2) blocks. Both readers splice to /dev/null, like pv and the article's reader."
            .into(),
    );
    if let Some(most) = contestants.iter().find_map(|contestant| contestant.spec.pipe_size) {
        out.notes.push(format!(
            "This user's pipes are limited to {} (raise /proc/sys/fs/pipe-max-size, or use CAP_SYS_RESOURCE). A vmsplice call \
             moves at most what the pipe holds, which limits the speed of rows with more bytes per call. Guests have no such \
             limit: there the pipe is as large as a block.",
            size::format(most)
        ));
    }
    if counts.values().flatten().any(|count| count.executed_on == ExecutedOn::Tcg) {
        out.notes.push(
            "Instructions are counted for some sizes only, because each count boots a guest. For the others: pipeprof sweep \
             --collect insn --kernel 6.1 --reader splice --buffer-size 4K..4M, and the same with --mode vmsplice-huge \
             --buffer-size 8K..8M, where one call moves half of the buffer."
                .into(),
        );
    }
    Ok(out)
}

/// All of the writer's calls for 100 GiB, as a tracer counts them.
fn calls(raced: &Raced) -> Taken<Reading> {
    let of = |pair: &Processes| {
        (pair.writer().bytes > 0).then(|| pair.writer().calls as f64 / pair.writer().bytes as f64 * PIPED)
    };
    // From the run with the median of the calls, not of the speed: EAGAIN differs much from run to run.
    let moving = raced.pairs.iter().filter(|pair| pair.writer().bytes > 0);
    let what = stats::median_by(moving, |pair| of(pair).unwrap_or_default()).map_or_else(String::new, |pair| {
        let moving = number(PIPED / moved(pair));
        format!("all calls: {:.1} % returned EAGAIN, {moving} moved bytes", again_percent(pair))
    });
    raced.count("calls", &what, of)
}

/// Bytes per call that moved any.
fn moved(pair: &Processes) -> f64 {
    let moving = pair.writer().calls.saturating_sub(pair.writer().eagain).max(1);
    pair.writer().bytes as f64 / moving as f64
}

fn again_percent(pair: &Processes) -> f64 {
    pair.writer().eagain as f64 / pair.writer().calls.max(1) as f64 * 100.0
}

/// Instructions of the writer.
#[derive(Debug, Clone, PartialEq)]
struct InstructionCount {
    per_call: f64,
    /// Without the roles [`ASLEEP`].
    awake_per_call: f64,
    per_byte: f64,
    /// Whether `awake_per_call` is compared with the article.
    judged_awake: bool,
    executed_on: ExecutedOn,
    how: String,
}

impl InstructionCount {
    fn per_call(&self) -> Reading {
        let judged = if self.judged_awake { self.awake_per_call } else { self.per_call };
        Reading::single(judged, "instructions per call", self.executed_on, &self.how)
    }

    fn total(&self) -> Reading {
        let part = self.per_call().value / self.per_call.max(1.0);
        Reading::single(self.per_byte * part * PIPED, "instructions", self.executed_on, &self.how)
    }
}

type Counts = BTreeMap<String, Taken<InstructionCount>>;

/// From hardware counters if there are any, else counted in guests.
fn instructions(lab: &Lab<'_>, race: &Race) -> Result<Counts> {
    let mut counts = Counts::new();
    for (block, writer) in SIZES.iter().flat_map(|block| WRITERS.map(|writer| (*block, writer))) {
        let id = key(writer, block);
        let pair = race.get(&id).ok().and_then(|raced| stats::median_by(&raced.pairs, Processes::gib_s));
        let totals = pair.map(Processes::writer).filter(|totals| totals.calls > 0);
        let counted = totals.and_then(|totals| Some((totals, *totals.counters.get("instructions")?)));
        if let Some((totals, count)) = counted {
            let per_call = count as f64 / totals.calls as f64;
            let count = InstructionCount {
                per_call,
                awake_per_call: per_call,
                per_byte: count as f64 / totals.bytes.max(1) as f64,
                judged_awake: false,
                executed_on: lab.executed_on(),
                how: "hardware counter, median run".into(),
            };
            counts.insert(id, Ok(count));
        } else if COUNTED.contains(&block) && (!lab.settings.quick || ARTICLE.contains(&block)) {
            counts.insert(id, exact(lab, writer, block)?);
        }
    }
    Ok(counts)
}

fn exact(lab: &Lab<'_>, writer: &str, block: u64) -> Result<Taken<InstructionCount>> {
    if lab.settings.quick && (writer, block) != (WRITERS[0], ARTICLE[0]) {
        return Ok(Err(skipped_by_quick("buffers")));
    }
    // Without a busy loop: two emulated CPUs take turns, and one that spins only wastes its turn. The cost per call is
    // constant, and a short window contains fewer timer interrupts.
    let calls = ((64 << 20) / block).clamp(16, 1024);
    let spec = Spec { amount: Amount::Calls(calls), warmup_bytes: 8 << 20, ..spec(writer, block, false) };
    let name = format!("instructions of {writer}, {}", size::format(block));
    // Like the article's machine: no mitigations, copies by rep movsb.
    let setup = GuestSetup { cpus: Some(1), cpu: Some("qemu64,+erms".into()), append: vec!["mitigations=off".into()] };
    let request = request(&name, &spec, vec![Collector::Insn], 1);
    Ok(lab.exact(&name, &request, &setup)?.and_then(|outcome| count(&outcome, writer)))
}

fn count(outcome: &Outcome, writer: &str) -> Taken<InstructionCount> {
    let document = &outcome.document;
    if let Some(missing) = without_huge_pages(&document.warnings, &document.command) {
        return Err(missing);
    }
    let totals = document.processes.writer();
    let profile = writer_of(outcome).filter(|_| totals.calls > 0 && totals.bytes > 0);
    let profile = profile.ok_or_else(|| Missing::new("the guest counted no instructions", document.command.clone()))?;
    let attributor = Attributor::new(&profile.stacks, profile.skid);
    let asleep = profile.stacks.iter().filter(|(stack, _)| ASLEEP.contains(&attributor.place(*stack).role.id));
    let asleep: u64 = asleep.map(|(_, weight)| weight).sum();
    let (total, calls) = (profile.stacks.total() as f64, totals.calls as f64);
    let judged_awake = writer == "vmsplice";
    let which = if judged_awake {
        "without waiting, waking up and scheduling, which the article's busy loop on two CPUs avoids"
    } else {
        "waiting, waking up and scheduling included"
    };
    Ok(InstructionCount {
        per_call: total / calls,
        awake_per_call: (total - asleep as f64) / calls,
        per_byte: total / totals.bytes as f64,
        judged_awake,
        executed_on: ExecutedOn::Tcg,
        how: format!("insn collector, Linux {}, mitigations=off, one emulated CPU; {which}", document.kernel.release),
    })
}

fn table(race: &Race, counts: &Counts) -> ExtraTable {
    let note = format!(
        "GiB/s: median of {}, all sizes alternating, with the median absolute deviation. Calls and CPU time: those of the \
         writer in the median run. Moved per call: without calls that returned EAGAIN; a call moves at most what the pipe \
         holds. Instructions of the writer: from a hardware counter, or counted exactly in an emulated guest (instructions are \
         not time); awake: without waiting, waking up and scheduling.",
        counted(race.runs(), "run")
    );
    let header = "writer | bytes per call | moved per call, KiB | GiB/s | spread | calls per MiB | EAGAIN | \
        CPU time, ns/KiB | instructions per call | instructions per call, awake";
    let mut table = ExtraTable::new("Buffer sizes on this machine", header, note);
    let dash = || "-".to_owned();
    for (writer, block) in WRITERS.iter().flat_map(|writer| SIZES.map(|block| (*writer, block))) {
        let id = key(writer, block);
        let Ok(raced) = race.get(&id) else { continue };
        let cells = match raced.measured() {
            Ok((speed, pair)) => {
                let totals = pair.writer();
                let mib = totals.bytes.max(1) as f64 / f64::from(1 << 20);
                [
                    number(moved(pair) / 1024.0),
                    number(speed.value),
                    speed.spread().unwrap_or_else(dash),
                    number(totals.calls as f64 / mib),
                    format!("{:.1} %", again_percent(pair)),
                    number((totals.user_ns + totals.system_ns) as f64 / mib / 1024.0),
                ]
            }
            Err(missing) => [dash(), dash(), missing.why, dash(), dash(), dash()],
        };
        let instructions = match counts.get(&id) {
            Some(Ok(count)) => [count.per_call, count.awake_per_call].map(number),
            _ => [dash(), dash()],
        };
        table.row([writer.to_owned(), size::format(block)].into_iter().chain(cells).chain(instructions));
    }
    table
}

/// The writer and the buffer size to whose speed the chart relates all others.
const BASE: (&str, u64) = ("write", 32 << 10);

fn chart(facts: &Facts, race: &Race) -> Option<Chart> {
    const GIB_PER_GB: f64 = 1e9 / (1u64 << 30) as f64;
    let measured = |writer: &str| -> Vec<Point> {
        let speed = |block: u64| Some(race.speed(&key(writer, block)).ok()?.point(size::format(block)));
        SIZES.iter().filter_map(|block| speed(*block)).collect()
    };
    let article = |writer: &str| -> Vec<Point> {
        let value = |block: u64| facts.find(&format!("B.buffers.speed.{}", key(writer, block)))?.1.value;
        let point = |block: u64| Some(Point { label: size::format(block), y: value(block)? * GIB_PER_GB, span: None });
        ARTICLE.iter().filter_map(|block| point(*block)).collect()
    };
    let (mut here, mut there) = (WRITERS.map(measured), WRITERS.map(article));
    if here.iter().all(Vec::is_empty) {
        return None;
    }
    // All writers of a machine are related to the same value.
    let base = |all: &[Vec<Point>]| {
        let written = all.iter().zip(WRITERS).find(|(_, writer)| *writer == BASE.0).map(|(points, _)| points)?;
        written.iter().find(|point| point.label == size::format(BASE.1)).map(|point| point.y)
    };
    let related = base(&here).zip(base(&there)).map(|(own, article)| {
        here.iter_mut().for_each(|points| super::divide(points, own));
        there.iter_mut().for_each(|points| super::divide(points, article));
    });
    let unit = if related.is_some() { "times the speed of write with 32K" } else { "GiB/s" };
    let named = |machine: &str, points: [Vec<Point>; 2]| {
        let name = |writer: &str| format!("{writer}, {machine}");
        WRITERS.into_iter().map(name).zip(points).collect::<Vec<_>>()
    };
    let series = [named("this machine", here), named("article B", there)].concat();
    let caption = format!(
        "Measured: median of {}, bars from minimum to maximum. Article: {}.",
        counted(race.runs(), "run"),
        facts.articles.get("B").map_or("", |article| article.machine.as_str())
    );
    let (names, axes) = (["buffers", "Throughput over buffer sizes"], [unit, "bytes per system call"]);
    Some(super::chart(ChartKind::Lines, names, axes, series, caption))
}

fn fastest(race: &Race, writer: &str) -> Option<String> {
    let speed = |block: &u64| Some((*block, race.speed(&key(writer, *block)).ok()?.value));
    let speeds: Vec<(u64, f64)> = SIZES.iter().filter_map(speed).collect();
    let (block, speed) = speeds.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (least, slowest) = speeds.first()?;
    Some(format!(
        "{writer} is fastest with {} per call: {} GiB/s, {} times the speed with {}.",
        size::format(*block),
        number(*speed),
        number(speed / slowest),
        size::format(*least)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ProcessName;

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
        assert!(reading.how.ends_with("50.0 % returned EAGAIN, 819,200 moved bytes"), "{}", reading.how);
        // A count holds under emulation, but not of other pages.
        raced.executed_on = ExecutedOn::Tcg;
        assert!(calls(&raced).is_ok());
        raced.pairs[0].of_mut(ProcessName::WRITER).huge_pages = Some(crate::document::GotAsked { got: 0, asked: 1 });
        assert!(calls(&raced).is_err());
    }
}
