//! Article B: the table over buffer sizes, with instructions.

use super::data::{BuffersData, WriterSize};
use super::shared::{skipped_by_quick, writer as writer_of};
use crate::reproduce::parts::shared::prelude::*;
use crate::workload;

/// The article's workload with `block` bytes per call.
fn spec(writer: &NamedSpec, block: u64) -> Spec {
    // One call of vmsplice moves one half.
    let halves = if writer.axes.writer == Writer::Vmsplice { 2 } else { 1 };
    Spec { buffer_size: halves * block, ..writer.axes.clone() }
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

pub(super) fn run(lab: &Lab<'_>, facts: &Facts) -> Result<PartOutput> {
    let data = &PartsData::get()?.buffers;
    let mut out = PartOutput::default();
    let window = Amount::DurationNs(lab.settings.window_ns());
    let sizes = if lab.settings.quick { &data.quick } else { &data.sizes };
    let contestant = |(block, writer): (u64, &NamedSpec)| {
        let spec = within_limits(spec(writer, block), lab.executed_on());
        Contestant { id: key(&writer.name, block), spec: Spec { amount: window, ..spec } }
    };
    let contestants: Vec<Contestant> = data.each(sizes).map(contestant).collect();
    let race = lab.race("sizes", &contestants, lab.settings.rounds())?;
    let mut insert = |id: String, reading: Taken<Reading>| {
        if facts.find(&id).is_some() {
            out.readings.insert(id, reading);
        }
    };
    for raced in &race.0 {
        insert(data.fact("speed", &raced.id), raced.speed());
        insert(data.fact("calls", &raced.id), calls(data, raced));
    }
    for WriterSize { fact, writer, bytes } in &data.speeds {
        insert(fact.clone(), race.speed(&key(writer, *bytes)));
    }
    if let Some(reading) = super::programs::fizzbuzz(lab)? {
        insert(data.program.clone(), reading);
    }
    let counts = instructions(lab, data, &race)?;
    for (id, count) in &counts {
        let count = count.as_ref().map_err(Clone::clone);
        insert(data.fact("instructions", id), count.clone().map(|count| count.total(data.piped)));
        insert(data.fact("percall", id), count.map(InstructionCount::per_call));
    }
    out.charts.extend(chart(facts, data, &race));
    out.tables.push(table(data, &race, &counts));
    out.findings.extend(data.writers.iter().filter_map(|writer| fastest(data, &race, &writer.name)));
    out.notes.push(data.note.clone());
    if let Some(most) = contestants.iter().find_map(|contestant| contestant.spec.pipe_size) {
        out.notes.push(filled(&data.limited, &[("most", size::format(most))]));
    }
    if counts.values().flatten().any(|count| count.executed_on == ExecutedOn::Tcg) {
        out.notes.push(data.some_counted.clone());
    }
    Ok(out)
}

impl BuffersData {
    /// The id of the fact about one writer and block.
    fn fact(&self, what: &str, key: &str) -> String {
        format!("{}.buffers.{what}.{key}", self.article)
    }

    /// Each size with each writer.
    fn each<'a>(&'a self, sizes: &'a [u64]) -> impl Iterator<Item = (u64, &'a NamedSpec)> {
        sizes.iter().flat_map(|block| self.writers.iter().map(|writer| (*block, writer)))
    }
}

/// All of the writer's calls for as many bytes as the article piped, as a tracer counts them.
fn calls(data: &BuffersData, raced: &Raced) -> Taken<Reading> {
    let of = |pair: &Processes| {
        (pair.writer().bytes > 0).then(|| pair.writer().calls as f64 / pair.writer().bytes as f64 * data.piped)
    };
    // From the run with the median of the calls, not of the speed: EAGAIN differs much from run to run.
    let moving = raced.pairs.iter().filter(|pair| pair.writer().bytes > 0);
    let what = stats::median_by(moving, |pair| of(pair).unwrap_or_default()).map_or_else(String::new, |pair| {
        let moving = number(data.piped / moved(pair));
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
    /// Without the roles of a process that sleeps.
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

    fn total(&self, piped: f64) -> Reading {
        let part = self.per_call().value / self.per_call.max(1.0);
        Reading::single(self.per_byte * part * piped, "instructions", self.executed_on, &self.how)
    }
}

type Counts = BTreeMap<String, Taken<InstructionCount>>;

/// From hardware counters if there are any, else counted in guests.
fn instructions(lab: &Lab<'_>, data: &BuffersData, race: &Race) -> Result<Counts> {
    let mut counts = Counts::new();
    for (block, writer) in data.each(&data.sizes) {
        let id = key(&writer.name, block);
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
        } else if data.counted.contains(&block) && (!lab.settings.quick || data.listed.contains(&block)) {
            counts.insert(id, exact(lab, data, writer, block)?);
        }
    }
    Ok(counts)
}

fn exact(lab: &Lab<'_>, data: &BuffersData, writer: &NamedSpec, block: u64) -> Result<Taken<InstructionCount>> {
    if lab.settings.quick && (writer.name.as_str(), block) != (&*data.base.writer, data.base.bytes) {
        return Ok(Err(skipped_by_quick("buffers")));
    }
    // Without a busy loop: two emulated CPUs take turns, and one that spins only wastes its turn. The cost per call is
    // constant, and a short window contains fewer timer interrupts.
    let calls = ((64 << 20) / block).clamp(16, 1024);
    let amount = Amount::Calls(calls);
    let spec = Spec { busy_loop: false, amount, warmup_bytes: 8 << 20, ..spec(writer, block) };
    let name = format!("instructions of {}, {}", writer.name, size::format(block));
    // Like the article's machine: no mitigations, copies by rep movsb.
    let setup = GuestSetup { cpus: Some(1), cpu: Some("qemu64,+erms".into()), append: vec!["mitigations=off".into()] };
    let request = request(&name, &spec, vec![Collector::Insn], 1);
    Ok(lab.exact(&name, &request, &setup)?.and_then(|outcome| count(data, &outcome, writer)))
}

fn count(data: &BuffersData, outcome: &Outcome, writer: &NamedSpec) -> Taken<InstructionCount> {
    let document = &outcome.document;
    if let Some(missing) = without_huge_pages(&document.warnings, &document.command) {
        return Err(missing);
    }
    let totals = document.processes.writer();
    let profile = writer_of(outcome).filter(|_| totals.calls > 0 && totals.bytes > 0);
    let profile = profile.ok_or_else(|| Missing::new("the guest counted no instructions", document.command.clone()))?;
    let attributor = Attributor::new(&profile.stacks, profile.skid);
    let asleep = profile.stacks.iter().filter(|(stack, _)| data.asleep.contains(&attributor.place(*stack).role.id));
    let asleep: u64 = asleep.map(|(_, weight)| weight).sum();
    let (total, calls) = (profile.stacks.total() as f64, totals.calls as f64);
    // The article's busy loop never sleeps.
    let judged_awake = writer.axes.busy_loop;
    let which = if judged_awake { &data.awake } else { &data.whole };
    Ok(InstructionCount {
        per_call: total / calls,
        awake_per_call: (total - asleep as f64) / calls,
        per_byte: total / totals.bytes as f64,
        judged_awake,
        executed_on: ExecutedOn::Tcg,
        how: format!("insn collector, Linux {}, mitigations=off, one emulated CPU; {which}", document.kernel.release),
    })
}

fn table(data: &BuffersData, race: &Race, counts: &Counts) -> ExtraTable {
    let mut table = data.table.table(&[("runs", counted(race.runs(), "run"))]);
    let dash = || "-".to_owned();
    for (writer, block) in data.writers.iter().flat_map(|writer| data.sizes.iter().map(move |block| (writer, *block))) {
        let id = key(&writer.name, block);
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
        table.row([writer.name.clone(), size::format(block)].into_iter().chain(cells).chain(instructions));
    }
    table
}

fn chart(facts: &Facts, data: &BuffersData, race: &Race) -> Option<Chart> {
    const GIB_PER_GB: f64 = 1e9 / (1u64 << 30) as f64;
    let names = data.writers.each_ref().map(|writer| writer.name.as_str());
    let measured = |writer: &str| -> Vec<Point> {
        let speed = |block: u64| Some(race.speed(&key(writer, block)).ok()?.point(size::format(block)));
        data.sizes.iter().filter_map(|block| speed(*block)).collect()
    };
    let article = |writer: &str| -> Vec<Point> {
        let value = |block: u64| facts.find(&data.fact("speed", &key(writer, block)))?.1.value;
        let point = |block: u64| Some(Point { label: size::format(block), y: value(block)? * GIB_PER_GB, span: None });
        data.listed.iter().filter_map(|block| point(*block)).collect()
    };
    let (mut here, mut there) = (names.map(measured), names.map(article));
    if here.iter().all(Vec::is_empty) {
        return None;
    }
    // All writers of a machine are related to the same value.
    let base = |all: &[Vec<Point>]| {
        let written =
            all.iter().zip(names).find(|(_, writer)| *writer == data.base.writer).map(|(points, _)| points)?;
        written.iter().find(|point| point.label == size::format(data.base.bytes)).map(|point| point.y)
    };
    let related = base(&here).zip(base(&there)).map(|(own, article)| {
        here.iter_mut().for_each(|points| super::shared::divide(points, own));
        there.iter_mut().for_each(|points| super::shared::divide(points, article));
    });
    let named = |machine: &str, points: [Vec<Point>; 2]| {
        let name = |writer: &str| format!("{writer}, {machine}");
        names.into_iter().map(name).zip(points).collect::<Vec<_>>()
    };
    let series = [named("this machine", here), named(&format!("article {}", data.article), there)].concat();
    let machine = facts.articles.get(&data.article).map_or_else(String::new, |article| article.machine.clone());
    let values = [("runs", counted(race.runs(), "run")), ("machine", machine)];
    Some(data.chart.chart(ChartKind::Lines, related.is_some(), series, &values))
}

fn fastest(data: &BuffersData, race: &Race, writer: &str) -> Option<String> {
    let speed = |block: &u64| Some((*block, race.speed(&key(writer, *block)).ok()?.value));
    let speeds: Vec<(u64, f64)> = data.sizes.iter().filter_map(speed).collect();
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
        let data = &PartsData::get().unwrap().buffers;
        let mut raced = Raced {
            id: key("vmsplice", 128 << 10),
            spec: spec(&data.writers[1], 128 << 10),
            // The pair of the median speed is not the one of the median calls.
            pairs: vec![pair(0, 2), pair(1 << 13, 1), pair(1 << 14, 3)],
            executed_on: ExecutedOn::Hardware,
            failed: None,
        };
        let reading = calls(data, &raced).unwrap();
        assert_eq!(reading.value, 100.0 * f64::from(1 << 14));
        assert!(reading.how.ends_with("50.0 % returned EAGAIN, 819,200 moved bytes"), "{}", reading.how);
        // A count holds under emulation, but not of other pages.
        raced.executed_on = ExecutedOn::Tcg;
        assert!(calls(data, &raced).is_ok());
        raced.pairs[0].of_mut(ProcessName::WRITER).huge_pages = Some(crate::result::GotAsked { got: 0, asked: 1 });
        assert!(calls(data, &raced).is_err());
    }
}
