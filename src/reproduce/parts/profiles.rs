//! Articles A and B: the call trees that they printed against ours.

mod by_role;
mod listed;

use super::{Part, all_missing};
use crate::document::{Collector, ExecutedOn, Outcome, Request};
use crate::profile::{Folded, ProcessName, Profile};
use crate::report::flamegraph::{Differential, GraphOptions, Shown, render_diff};
use crate::reproduce::facts::Facts;
use crate::reproduce::lab::{GuestSetup, Lab, Taken};
use crate::reproduce::result::{ExtraTable, Graph, Yield};
use crate::reproduce::stacks::{self, Printed, VMSPLICE, ZEROES};
use crate::reproduce::verdict::{Missing, Reading, number};
use crate::roles;
use crate::run::bench::request;
use crate::workload::Spec;
use crate::workload::spec::{Amount, Reader, Writer};
use anyhow::Result;
use by_role::{HEADER, LARGE_POINTS, rows};

/// The part.
pub struct Profiles;

/// A profile that the article printed, and the workload that it is of.
struct Case {
    printed: Printed,
    table: &'static str,
    timed: fn() -> Spec,
    exact: fn() -> Spec,
}

fn write() -> Spec {
    Spec { reader: Reader::Splice, buffer_size: 32 << 10, ..Spec::default() }
}

fn vmsplice() -> Spec {
    Spec { writer: Writer::Vmsplice, reader: Reader::Splice, huge_pages: true, ..Spec::default() }
}

const CASES: [Case; 2] = [
    Case { printed: ZEROES, table: "B.profile.write", timed: write, exact: write },
    Case {
        printed: VMSPLICE,
        table: "B.profile.vmsplice",
        timed: || Spec { busy_loop: true, ..vmsplice() },
        // Without a busy loop: an emulated CPU that spins for the other only burns its turn.
        exact: vmsplice,
    },
];

impl Part for Profiles {
    fn id(&self) -> &'static str {
        "profiles"
    }

    fn title(&self) -> &'static str {
        "Profiles: the articles' call trees against ours"
    }

    fn about(&self) -> &'static str {
        "articles A and B: shares by role and differential flame graphs, with the reason for each large difference"
    }

    fn run(&self, lab: &Lab<'_>, facts: &Facts) -> Result<Yield> {
        let mut out = Yield::default();
        listed::add(lab, facts, &mut out)?;
        for case in &CASES {
            let theirs = case.printed.stacks()?;
            let sampled = sampled(lab, case)?;
            let exact = exact(lab, case)?;
            readings(&mut out, facts, case, &sampled);
            if case.printed.id == ZEROES.id {
                out.readings.insert("B.copy.movsb".into(), copy_loop(&exact));
            }
            out.tables.push(table(&theirs, case, sampled.as_ref().ok(), exact.as_ref().ok()));
            let name = case.printed.title;
            for (taken, id, what) in [(&sampled, "sampled", "time sampled here"), (&exact, "exact", "instructions")] {
                match taken {
                    Ok(outcome) => graphs(&mut out, case, &theirs, outcome, id, what)?,
                    Err(missing) => {
                        out.notes.push(format!(
                            "No {id} profile of {name}: {}. For a machine that can: {}",
                            missing.why, missing.command
                        ));
                    }
                }
            }
        }
        Ok(out)
    }
}

fn sampled(lab: &Lab<'_>, case: &Case) -> Result<Taken<Outcome>> {
    let window = lab.settings.window_ns() * if lab.settings.quick { 4 } else { 2 };
    let spec = Spec { amount: Amount::DurationNs(window), ..(case.timed)() };
    let runs = if lab.settings.quick { 1 } else { 5 };
    let request = request(case.printed.title, &spec, vec![Collector::Sample], runs);
    let taken = lab.run(&format!("profile of {}", case.printed.id), &request)?;
    Ok(taken.and_then(|outcome| with_writer(outcome, &request)))
}

fn exact(lab: &Lab<'_>, case: &Case) -> Result<Taken<Outcome>> {
    if lab.settings.quick {
        return Ok(Err(Missing::new("left out by --quick: counted in a guest", "pipeprof reproduce profiles")));
    }
    let spec = Spec { amount: Amount::Calls(1024), warmup_bytes: 8 << 20, ..(case.exact)() };
    let request = request(case.printed.title, &spec, vec![Collector::Insn], 1);
    let setup = GuestSetup { cpus: None, cpu: Some("qemu64,+erms".into()), append: vec!["mitigations=off".into()] };
    let taken = lab.exact(&format!("instructions of {}", case.printed.id), &request, &setup)?;
    Ok(taken.and_then(|outcome| with_writer(outcome, &request)))
}

fn with_writer(outcome: Outcome, request: &Request) -> Taken<Outcome> {
    if writer(&outcome).is_some() {
        return Ok(outcome);
    }
    let why = outcome.document.collectors.iter().find_map(|collector| collector.reason.clone());
    Err(Missing::new(why.unwrap_or_else(|| "no samples were taken".into()), format!("sudo {}", request.command)))
}

fn writer(outcome: &Outcome) -> Option<&Profile> {
    outcome.profiles.iter().find(|profile| profile.process == ProcessName::WRITER && !profile.stacks.is_empty())
}

fn readings(out: &mut Yield, facts: &Facts, case: &Case, sampled: &Taken<Outcome>) {
    let profile = match sampled {
        Ok(outcome) => writer(outcome).map(|profile| (profile, outcome)),
        Err(missing) => return all_missing(&mut out.readings, facts, &[case.table], missing),
    };
    for fact in facts.table(case.table).iter().flat_map(|table| &table.rows) {
        let missing = || Missing::new("no samples", "pipeprof reproduce profiles");
        let reading = profile.ok_or_else(missing).and_then(|(profile, outcome)| {
            let document = &outcome.document;
            super::share_reading(&[profile], fact, document.executed_on, "the writer", &document.command)
        });
        out.readings.insert(fact.id.clone(), reading);
    }
}

/// Instructions per KiB of the kernel's copy loop itself.
fn copy_loop(exact: &Taken<Outcome>) -> Taken<Reading> {
    let outcome = exact.as_ref().map_err(Clone::clone)?;
    let bytes = outcome.document.processes.writer().bytes;
    let Some(profile) = writer(outcome).filter(|_| bytes > 0) else {
        return Err(Missing::new("nothing was counted", outcome.document.command.clone()));
    };
    const LOOP: &str = "copy_user_enhanced_fast_string";
    let own = stacks::leaf(&profile.stacks, LOOP);
    if own == 0 {
        let why = "this kernel copies inline: its copy loop is no function of its own";
        return Err(Missing::new(why, "pipeprof reproduce profiles --kernel 6.1"));
    }
    let names = roles::names_of(LOOP);
    let leaves = profile.stacks.iter().map(|(stack, _)| roles::base_name(stack.rsplit(';').next().unwrap_or(stack)));
    let name = leaves.into_iter().find(|leaf| names.contains(leaf)).unwrap_or(LOOP);
    let how = format!("{name} itself, callees apart, {} (emulated CPU with ERMS)", outcome.document.kernel.release);
    Ok(Reading::single(own as f64 / (bytes as f64 / 1024.0), "instructions per KiB", ExecutedOn::Tcg, &how))
}

fn table(theirs: &Folded, case: &Case, sampled: Option<&Outcome>, exact: Option<&Outcome>) -> ExtraTable {
    let samples = sampled.and_then(writer).map_or(0, |profile| profile.stacks.total());
    let instructions = exact.and_then(writer).map_or(0, |profile| profile.stacks.total());
    let kernel = |outcome: Option<&Outcome>| outcome.map_or_else(|| "-".into(), |o| o.document.kernel.release.clone());
    let note = format!(
        "Per cent of the writer's profile. Theirs: sample weights of article B. Ours: {samples} samples on {}, and {} \
         instructions counted exactly on {} in an emulated guest, where clearing or copying a whole page is one instruction. \
         Reasons are given from {LARGE_POINTS} points on, for time against time. Samples of cpu-clock that landed where \
         interrupts come back on are booked to the role of the caller that had them off, as the article's sampling saw them \
         in place.",
        kernel(sampled),
        number(instructions as f64),
        kernel(exact)
    );
    let mut table = ExtraTable::new(format!("By role: {}", case.printed.title), &HEADER, note);
    let sampled = sampled.and_then(|outcome| Some((outcome, &writer(outcome)?.stacks)));
    let exact = exact.and_then(writer).map(|profile| &profile.stacks);
    table.rows = rows(theirs, sampled, exact, &[]);
    table
}

fn graphs(out: &mut Yield, case: &Case, theirs: &Folded, ours: &Outcome, id: &str, what: &str) -> Result<()> {
    let Some(profile) = writer(ours) else { return Ok(()) };
    let (before, after) = (stacks::aligned(theirs), stacks::aligned(&profile.stacks));
    let difference = Differential::of_shares(&before, &after);
    let release = &ours.document.kernel.release;
    let title = format!("{}: article B against {release}, {what}", case.printed.title);
    for (shown, name, heading, about) in [
        (
            Shown::Before,
            "theirs",
            "what the article's machine did",
            "widths of the article; blue takes less here, or is gone",
        ),
        (Shown::After, "ours", "what this one does", "widths of ours; red takes more than in the article"),
    ] {
        let options = GraphOptions::new(&title, about, profile.unit, profile.skid);
        out.graphs.push(Graph {
            id: format!("{}-{id}-{name}", case.printed.id),
            title: format!("{}, {what}: {heading}", case.printed.title),
            about: format!("{about}; frames under one name per function, from the system call down"),
            svg: render_diff(&difference, shown, &options)?,
        });
    }
    Ok(())
}
