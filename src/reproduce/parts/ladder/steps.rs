//! What each rung of the ladder removed, by role, against what the article says that it removes.

use super::Profiles;
use crate::document::{ExecutedOn, Processes};
use crate::profile::ProcessName;
use crate::reproduce::lab::Raced;
use crate::reproduce::result::{ExtraTable, Yield};
use crate::reproduce::stacks;
use crate::reproduce::verdict::{Missing, Reading, number};
use crate::roles::RoleId;
use std::collections::BTreeMap;

/// A step of the ladder: what the article says it removes.
struct Step {
    from: &'static str,
    to: &'static str,
    argument: &'static str,
    removes: &'static [RoleId],
    /// Whether time off the CPU goes as well.
    sleep: bool,
}

const STEPS: &[Step] = &[
    Step {
        from: "1",
        to: "2",
        argument: "no copying in, no pages to allocate",
        removes: &[RoleId::CopyIn, RoleId::PageAlloc, RoleId::PageFree, RoleId::MemcgCharge, RoleId::MemcgUncharge],
        sleep: false,
    },
    Step { from: "2", to: "3", argument: "no copying out", removes: &[RoleId::CopyOut], sleep: false },
    Step { from: "3", to: "4", argument: "cheaper user pages", removes: &[RoleId::UserPages], sleep: false },
    Step {
        from: "4",
        to: "5",
        argument: "no waits, no wake-ups",
        removes: &[RoleId::Wait, RoleId::WakeUp, RoleId::Scheduler, RoleId::Psi, RoleId::Idle, RoleId::MutexSleep],
        sleep: true,
    },
];

/// Per cent of the time before within which prediction and measurement are said to fit.
const FITS_POINTS: f64 = 15.0;

/// CPU time of both processes per KiB, in ns.
pub(super) fn cpu_per_kib(pair: &Processes, side: ProcessName) -> f64 {
    let process = if side == ProcessName::WRITER { pair.writer() } else { pair.reader() };
    (process.user_ns + process.system_ns) as f64 / (pair.reader().bytes.max(1) as f64 / 1024.0)
}

fn wall_per_kib(pair: &Processes) -> f64 {
    pair.window_ns as f64 / (pair.reader().bytes.max(1) as f64 / 1024.0)
}

/// A rung's median pair, and in which roles its processes spent their time.
struct Profiled<'a> {
    pair: &'a Processes,
    executed_on: ExecutedOn,
    writer: Shares,
    reader: Shares,
}

/// Shares, 0 to 1, by role.
type Shares = BTreeMap<RoleId, f64>;

fn share_of(shares: &Shares, roles: &[RoleId]) -> f64 {
    roles.iter().filter_map(|role| shares.get(role)).sum()
}

/// ns per KiB that one rung spends in `roles`, both processes together: shares of its profile times the CPU time of
/// its pairs alone.
fn time_in(rung: &Profiled<'_>, roles: &[RoleId]) -> f64 {
    share_of(&rung.writer, roles) * cpu_per_kib(rung.pair, ProcessName::WRITER)
        + share_of(&rung.reader, roles) * cpu_per_kib(rung.pair, ProcessName::READER)
}

fn rung<'a>(raced: &'a [Raced], profiles: &'a Profiles, id: &str) -> Result<Profiled<'a>, Missing> {
    let outcome = match profiles.get(id) {
        Some(Ok(outcome)) => outcome,
        Some(Err(missing)) => return Err(missing.clone()),
        None => return Err(Missing::new(format!("rung {id} was not profiled"), "pipeprof reproduce ladder")),
    };
    let none = || Missing::new("no pair", "pipeprof reproduce ladder");
    let raced = raced.iter().find(|raced| raced.id == id).ok_or_else(none)?;
    raced.speed()?;
    let pair = raced.typical().ok_or_else(none)?;
    let spent = |side: ProcessName| {
        let profile = outcome.profiles.iter().find(|profile| profile.collector == "sample" && profile.process == side);
        profile.map_or_else(Shares::new, |profile| stacks::shares(&profile.stacks, profile.skid))
    };
    let executed_on = outcome.document.executed_on;
    Ok(Profiled { pair, executed_on, writer: spent(ProcessName::WRITER), reader: spent(ProcessName::READER) })
}

/// Which roles went with each step, whether the gain fits, and the article's claims.
pub(super) fn explain(out: &mut Yield, raced: &[Raced], profiles: &Profiles) {
    let note = "ns of CPU time per KiB, writer and reader together: shares of the sampled profile times the CPU time of \
        the median pair without sampler. \"Said to go\": the part of both processes' CPU time before \
        that the profile before books to the roles which the article names; for the busy loop, the part of the elapsed time \
        by which the busier process gets shorter without them and without time off the CPU. \"Went\": the part that did. \
        They fit when they are within 15 points. Time with interrupts off is attributed to the caller that had \
        them off.";
    let header =
        ["step", "the article's argument", "largest changes by role, ns/KiB", "of", "said to go", "went", "fits"];
    let mut table = ExtraTable::new("What each rung removed", &header, note);
    for step in STEPS {
        let (before, after) = match (rung(raced, profiles, step.from), rung(raced, profiles, step.to)) {
            (Ok(before), Ok(after)) => (before, after),
            (Err(missing), _) | (_, Err(missing)) => {
                let dash = || "-".to_owned();
                let name = format!("{} to {}", step.from, step.to);
                table.rows.push(vec![
                    name,
                    step.argument.into(),
                    missing.why,
                    dash(),
                    dash(),
                    dash(),
                    "not testable".into(),
                ]);
                continue;
            }
        };
        let (said, went) = if step.sleep { elapsed(step, &before, &after) } else { cpu(step, &before, &after) };
        let fits = (said - went).abs() <= FITS_POINTS;
        table.rows.push(vec![
            format!("{} to {}", step.from, step.to),
            step.argument.to_owned(),
            changes(&before, &after, &[]),
            if step.sleep { "elapsed time" } else { "CPU time" }.to_owned(),
            format!("{said:.0} %"),
            format!("{went:.0} %"),
            if fits { "yes" } else { "no" }.to_owned(),
        ]);
        let of = if step.sleep { "elapsed time" } else { "CPU time of both processes" };
        let moved = if went >= 0.0 {
            format!("{went:.0} % of the {of} went")
        } else {
            format!("the {of} grew by {:.0} %", -went)
        };
        let fitting = match () {
            () if fits => "which fits",
            () if went > said => "more than",
            () => "less than",
        };
        let besides = if fits { String::new() } else { changes(&before, &after, step.removes) };
        let besides = if besides.is_empty() {
            besides
        } else {
            format!(" Beside what it names, changed most, in ns of CPU time per KiB: {besides}.")
        };
        out.findings.push(format!(
            "Step {} to {} ({}): {moved}, {fitting} the {said:.0} % that the profile before says would go.{besides}",
            step.from, step.to, step.argument
        ));
    }
    out.tables.push(table);
    let waits: &[RoleId] = &[RoleId::Wait, RoleId::WakeUp, RoleId::Scheduler, RoleId::Psi, RoleId::Idle];
    let claims: [(&str, &str, &str, &[RoleId]); 4] = [
        ("A.claims.copy", "1", "2", &[RoleId::CopyIn, RoleId::CopyOut]),
        ("A.claims.nocopy", "2", "3", &[RoleId::CopyIn, RoleId::CopyOut]),
        ("A.claims.huge", "3", "4", &[RoleId::UserPages]),
        ("A.claims.busy", "4", "5", waits),
    ];
    for (id, from, to, roles) in claims {
        let reading = match (rung(raced, profiles, from), rung(raced, profiles, to)) {
            (Ok(before), Ok(after)) => {
                let (was, is) = (time_in(&before, roles), time_in(&after, roles));
                let how = format!("{} ns/KiB on rung {from}, {} on rung {to}", number(was), number(is));
                if was > 0.0 {
                    Ok(Reading::single(is / was, "of before", after.executed_on, &how))
                } else {
                    Err(Missing::new(format!("no such time was sampled on rung {from}"), "pipeprof reproduce ladder"))
                }
            }
            (Err(missing), _) | (_, Err(missing)) => Err(missing),
        };
        out.readings.insert(id.to_owned(), reading);
    }
    if let (Ok(before), Ok(after)) = (rung(raced, profiles, "1"), rung(raced, profiles, "2")) {
        out.findings.extend(copying(&before, &after));
    }
}

/// What became of each half of the copying when one of them went.
fn copying(before: &Profiled<'_>, after: &Profiled<'_>) -> Option<String> {
    let [was_in, was_out, is_in, is_out] =
        [(before, RoleId::CopyIn), (before, RoleId::CopyOut), (after, RoleId::CopyIn), (after, RoleId::CopyOut)]
            .map(|(rung, role)| time_in(rung, &[role]));
    (was_in + was_out > 0.0).then(|| {
        let rest = if is_out < was_out / 2.0 {
            "; more than half went, as copying out got cheaper too: its pages are the writer's own buffer now, and no \
             newly allocated ones"
        } else {
            ""
        };
        format!(
            "Copying, rung 1 to 2, in ns of CPU time per KiB: in {} to {}, out {} to {}{rest}.",
            number(was_in),
            number(is_in),
            number(was_out),
            number(is_out)
        )
    })
}

/// Per cent of both processes' CPU time per KiB that the step was said to take away, and that went: the time of both
/// counts, as the pipe's lock lets only one of them work at a time; other load on the machine does not.
fn cpu(step: &Step, before: &Profiled<'_>, after: &Profiled<'_>) -> (f64, f64) {
    let both =
        |rung: &Profiled<'_>| cpu_per_kib(rung.pair, ProcessName::WRITER) + cpu_per_kib(rung.pair, ProcessName::READER);
    let was = both(before).max(f64::MIN_POSITIVE);
    (time_in(before, step.removes) / was * 100.0, (1.0 - both(after) / was) * 100.0)
}

/// The same of the elapsed time, where sleeping is what goes: said to be left is the work of the busier process.
fn elapsed(step: &Step, before: &Profiled<'_>, after: &Profiled<'_>) -> (f64, f64) {
    let left =
        |side: ProcessName, shares: &Shares| cpu_per_kib(before.pair, side) * (1.0 - share_of(shares, step.removes));
    let was = wall_per_kib(before.pair).max(f64::MIN_POSITIVE);
    let left = left(ProcessName::WRITER, &before.writer).max(left(ProcessName::READER, &before.reader)).min(was);
    ((1.0 - left / was) * 100.0, (1.0 - wall_per_kib(after.pair) / was) * 100.0)
}

/// The three roles that changed most, of those that are not in `without`.
fn changes(before: &Profiled<'_>, after: &Profiled<'_>, without: &[RoleId]) -> String {
    let mut changes: Vec<(f64, &str)> = crate::roles::all()
        .iter()
        .filter(|role| !without.contains(&role.id))
        .map(|role| (time_in(after, &[role.id]) - time_in(before, &[role.id]), role.title))
        .collect();
    changes.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    let text: Vec<String> = changes
        .iter()
        .take(3)
        .filter(|(change, _)| change.abs() > 0.05)
        .map(|(change, title)| format!("{title} {}{}", if *change < 0.0 { "−" } else { "+" }, number(change.abs())))
        .collect();
    text.join(", ")
}
