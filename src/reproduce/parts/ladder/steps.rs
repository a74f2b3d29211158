//! What each step of the ladder removed, by role, compared with what the article says.

use super::rungs::{COMMAND, Profiles};
use crate::reproduce::parts::data::{LadderClaim, LadderData, LadderStep};
use crate::reproduce::parts::shared::prelude::*;

/// Percentage points within which prediction and measurement agree.
const AGREE_POINTS: f64 = 15.0;

/// Writer and reader.
const BOTH: [ProcessName; 2] = [ProcessName::WRITER, ProcessName::READER];

/// A rung's median run, and the shares (0 to 1) of the roles in which its writer and reader spent their time.
struct ProfiledRung<'a> {
    pair: &'a Processes,
    executed_on: ExecutedOn,
    shares: [BTreeMap<RoleId, f64>; 2],
}

impl ProfiledRung<'_> {
    /// CPU time per KiB of each process, and its share in `roles`.
    fn processes(&self, roles: &[RoleId]) -> [(f64, f64); 2] {
        let share = |process: usize| roles.iter().filter_map(|role| self.shares[process].get(role)).sum();
        [0, 1].map(|process| (self.pair.cpu_per_kib(BOTH[process]), share(process)))
    }

    /// ns per KiB in `roles`, both processes together: shares of the profile times the CPU time of unprofiled runs.
    fn time_in(&self, roles: &[RoleId]) -> f64 {
        let [writer, reader] = self.processes(roles).map(|(time, share)| share * time);
        writer + reader
    }

    fn cpu(&self) -> f64 {
        let [writer, reader] = self.processes(&[]).map(|(time, _)| time);
        writer + reader
    }

    fn wall(&self) -> f64 {
        self.pair.window_ns as f64 / (self.pair.reader().bytes.max(1) as f64 / 1024.0)
    }
}

fn rung<'a>(race: &'a Race, profiles: &'a Profiles, id: &str) -> Taken<ProfiledRung<'a>> {
    let not_profiled = || Err(Missing::new(format!("rung {id} was not profiled"), COMMAND));
    let outcome = match profiles.get(id) {
        Some(taken) => taken.as_ref().map_err(Clone::clone),
        None => not_profiled(),
    }?;
    let (_, pair) = race.get(id)?.measured()?;
    let shares = BOTH.map(|process| {
        let profile =
            outcome.profiles.iter().find(|profile| profile.collector == "sample" && profile.process == process);
        profile.map_or_else(BTreeMap::new, |profile| stacks::shares(&profile.stacks, profile.skid))
    });
    Ok(ProfiledRung { pair, executed_on: outcome.document.executed_on, shares })
}

/// Which roles each step removed, whether that explains the gain, and the article's claims.
pub(super) fn explain(out: &mut PartOutput, data: &LadderData, race: &Race, profiles: &Profiles) {
    let rungs = |from: &str, to: &str| Ok((rung(race, profiles, from)?, rung(race, profiles, to)?));
    let mut table = data.removed.table(&[]);
    for step in &data.steps {
        let name = format!("{} to {}", step.from, step.to);
        match rungs(&step.from, &step.to) {
            Ok((before, after)) => {
                let changed = changes(&before, &after, &[]);
                let (row, finding) = judge(step, &before, &after);
                table.row([name, step.argument.clone(), changed].into_iter().chain(row));
                out.findings.push(finding);
            }
            Err(Missing { why, .. }) => table.row([&*name, &step.argument, &why, "-", "-", "-", "not testable"]),
        }
    }
    out.tables.push(table);
    for LadderClaim { fact, from, to, roles } in &data.claims {
        let reading = rungs(from, to).and_then(|(before, after)| {
            let (was, is) = (before.time_in(roles), after.time_in(roles));
            if was <= 0.0 {
                return Err(Missing::new(format!("rung {from} has no samples in these roles"), COMMAND));
            }
            let how = format!("{} ns/KiB on rung {from}, {} on rung {to}", number(was), number(is));
            Ok(Reading::single(is / was, "ratio", after.executed_on, &how))
        });
        out.readings.insert(fact.clone(), reading);
    }
    // The first step is said to remove one half of the copying.
    if let Some(step) = data.steps.first()
        && let Ok((before, after)) = rungs(&step.from, &step.to)
    {
        out.findings.extend(copying(step, &before, &after));
    }
}

/// The last cells of a step's row, and its sentence.
fn judge(step: &LadderStep, before: &ProfiledRung<'_>, after: &ProfiledRung<'_>) -> ([String; 4], String) {
    let LadderStep { from, to, argument, removes, sleep, .. } = step;
    let (predicted, measured) = if *sleep { elapsed(removes, before, after) } else { cpu(removes, before, after) };
    let agree = (predicted - measured).abs() <= AGREE_POINTS;
    let (of, whole) =
        if *sleep { ("elapsed time", "elapsed time") } else { ("CPU time", "CPU time of both processes") };
    let row = [
        of.to_owned(),
        format!("{predicted:.0} %"),
        format!("{measured:.0} %"),
        if agree { "yes" } else { "no" }.to_owned(),
    ];
    let changed = if measured < 0.0 { "rose" } else { "fell" };
    let compared = match () {
        () if agree => "in agreement with",
        () if measured < 0.0 => "in contrast to",
        () if measured > predicted => "more than",
        () => "less than",
    };
    let others = if agree { String::new() } else { changes(before, after, removes) };
    let others = if others.is_empty() {
        others
    } else {
        format!(" Largest changes in other roles, in ns of CPU time per KiB: {others}.")
    };
    let sentence = format!(
        "Step {from} to {to} ({argument}): the {whole} per KiB {changed} by {:.0} %, {compared} the decrease of {predicted:.0} % \
         that the profile of rung {from} predicts.{others}",
        measured.abs()
    );
    (row, sentence)
}

/// What became of each half of the copying when one of them was removed.
fn copying(step: &LadderStep, before: &ProfiledRung<'_>, after: &ProfiledRung<'_>) -> Option<String> {
    let [was_in, was_out, is_in, is_out] =
        [(before, RoleId::CopyIn), (before, RoleId::CopyOut), (after, RoleId::CopyIn), (after, RoleId::CopyOut)]
            .map(|(rung, role)| rung.time_in(&[role]));
    let cheaper = if is_out < was_out / 2.0 {
        "; copying out became cheaper as well, because its pages are now the writer's buffer instead of new pages"
    } else {
        ""
    };
    (was_in + was_out > 0.0).then(|| {
        let [was_in, was_out, is_in, is_out] = [was_in, was_out, is_in, is_out].map(number);
        format!(
            "Copying, rung {} to {}, in ns of CPU time per KiB: in {was_in} → {is_in}, out {was_out} → {is_out}{cheaper}.",
            step.from, step.to
        )
    })
}

/// Predicted and measured decrease of both processes' CPU time per KiB, in per cent. The time of both counts, because the
/// pipe's lock lets only one of them work at a time. Other load of the machine does not matter.
fn cpu(removes: &[RoleId], before: &ProfiledRung<'_>, after: &ProfiledRung<'_>) -> (f64, f64) {
    let was = before.cpu().max(f64::MIN_POSITIVE);
    (before.time_in(removes) / was * 100.0, (1.0 - after.cpu() / was) * 100.0)
}

/// The same for the elapsed time, if the step removes sleeping: the work of the busier process is predicted to remain.
fn elapsed(removes: &[RoleId], before: &ProfiledRung<'_>, after: &ProfiledRung<'_>) -> (f64, f64) {
    let was = before.wall().max(f64::MIN_POSITIVE);
    let [writer, reader] = before.processes(removes).map(|(time, share)| time * (1.0 - share));
    let left = writer.max(reader).min(was);
    ((1.0 - left / was) * 100.0, (1.0 - after.wall() / was) * 100.0)
}

/// The three roles that changed most, except those in `without`.
fn changes(before: &ProfiledRung<'_>, after: &ProfiledRung<'_>, without: &[RoleId]) -> String {
    let mut changes: Vec<(f64, &str)> = crate::roles::all()
        .iter()
        .filter(|role| !without.contains(&role.id))
        .map(|role| (after.time_in(&[role.id]) - before.time_in(&[role.id]), role.title))
        .collect();
    changes.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    let large = changes.iter().take(3).filter(|(change, _)| change.abs() > 0.05);
    let text = large
        .map(|(change, title)| format!("{title} {}{}", if *change < 0.0 { "−" } else { "+" }, number(change.abs())));
    text.collect::<Vec<_>>().join(", ")
}
