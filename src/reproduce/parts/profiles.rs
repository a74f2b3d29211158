//! Articles A and B: the call trees that they published, compared with this machine's.

mod by_role;
mod listed;

use super::data::{CopyLoop, ProfilesData, PublishedProfile};
use super::shared::{all_missing, share_reading, skipped_by_quick, with_writer, writer};
use crate::report::flamegraph::{Differential, GraphOptions, Shown, render_diff};
use crate::reproduce::parts::shared::prelude::*;
use crate::reproduce::stacks;
use crate::roles;
use by_role::{LARGE_POINTS, rows};

pub(super) fn run(lab: &Lab<'_>, facts: &Facts) -> Result<PartOutput> {
    let data = &PartsData::get()?.profiles;
    let mut out = PartOutput::default();
    listed::add(lab, facts, data, &mut out)?;
    for published in &data.published {
        let PublishedProfile { id, title, table: facts_of, .. } = published;
        let article = stacks::published(id)?;
        let (sampled, exact) = (sampled(lab, published)?, exact(lab, published)?);
        readings(&mut out, facts, facts_of, &sampled);
        if *id == data.copy_loop.profile {
            out.readings.insert(data.copy_loop.fact.clone(), copy_loop(&data.copy_loop, &exact));
        }
        out.tables.push(table(data, &article, title, sampled.as_ref().ok(), exact.as_ref().ok()));
        for (taken, kind, what) in [(&sampled, "sampled", "sampled time"), (&exact, "exact", "instructions")] {
            match taken {
                Ok(outcome) => graphs(&mut out, &format!("{id}-{kind}"), title, &article, outcome, what)?,
                Err(Missing { why, command }) => {
                    out.notes
                        .push(format!("No {kind} profile of {title}: {why}. Command for another machine: {command}"));
                }
            }
        }
    }
    Ok(out)
}

fn sampled(lab: &Lab<'_>, published: &PublishedProfile) -> Result<Taken<Outcome>> {
    let window = lab.settings.window_ns() * if lab.settings.quick { 4 } else { 2 };
    let spec = Spec { amount: Amount::DurationNs(window), ..published.axes.clone() };
    let runs = if lab.settings.quick { 1 } else { 5 };
    let request = request(&published.title, &spec, vec![Collector::Sample], runs);
    let taken = lab.run(&format!("profile of {}", published.id), &request)?;
    Ok(taken.and_then(|outcome| with_writer(outcome, &request)))
}

fn exact(lab: &Lab<'_>, published: &PublishedProfile) -> Result<Taken<Outcome>> {
    if lab.settings.quick {
        return Ok(Err(skipped_by_quick("profiles")));
    }
    let amount = Amount::Calls(1024);
    let spec = Spec { busy_loop: false, amount, warmup_bytes: 8 << 20, ..published.axes.clone() };
    let request = request(&published.title, &spec, vec![Collector::Insn], 1);
    let setup = GuestSetup { cpus: None, cpu: Some("qemu64,+erms".into()), append: vec!["mitigations=off".into()] };
    let taken = lab.exact(&format!("instructions of {}", published.id), &request, &setup)?;
    Ok(taken.and_then(|outcome| with_writer(outcome, &request)))
}

fn readings(out: &mut PartOutput, facts: &Facts, table: &String, sampled: &Taken<Outcome>) {
    let outcome = match sampled {
        Ok(outcome) => outcome,
        Err(missing) => return all_missing(&mut out.readings, facts, std::slice::from_ref(table), missing),
    };
    for fact in facts.table(table).iter().flat_map(|table| &table.rows) {
        let document = &outcome.document;
        let missing = || Missing::new("no samples", "pipeprof reproduce profiles");
        let reading = writer(outcome).ok_or_else(missing).and_then(|profile| {
            share_reading(&profile.stacks, profile.skid, fact, document.executed_on, "the writer", &document.command)
        });
        out.readings.insert(fact.id.clone(), reading);
    }
}

/// Instructions per KiB of the kernel's copy loop itself.
fn copy_loop(CopyLoop { function, .. }: &CopyLoop, exact: &Taken<Outcome>) -> Taken<Reading> {
    let outcome = exact.as_ref().map_err(Clone::clone)?;
    let bytes = outcome.document.processes.writer().bytes;
    let Some(profile) = writer(outcome).filter(|_| bytes > 0) else {
        return Err(Missing::new("no instructions were counted", outcome.document.command.clone()));
    };
    let own = stacks::own(&profile.stacks, function);
    if own == 0 {
        return Err(Missing::new("this kernel inlines its copy loop", "pipeprof reproduce profiles --kernel 6.1"));
    }
    let names = roles::names_of(function);
    let mut leaves = profile.stacks.iter().map(|(stack, _)| roles::base_name(stack.leaf()));
    let name = leaves.find(|leaf| names.contains(leaf)).unwrap_or(function);
    let how = format!("self instructions of {name}, Linux {}, emulated CPU with ERMS", outcome.document.kernel.release);
    Ok(Reading::single(own as f64 / (bytes as f64 / 1024.0), "instructions per KiB", ExecutedOn::Tcg, &how))
}

fn table(
    data: &ProfilesData,
    article: &Folded,
    title: &str,
    sampled: Option<&Outcome>,
    exact: Option<&Outcome>,
) -> ExtraTable {
    let weight = |outcome: Option<&Outcome>| outcome.and_then(writer).map_or(0, |profile| profile.stacks.total());
    let kernel = |outcome: Option<&Outcome>| {
        outcome.map_or_else(|| "-".into(), |outcome| format!("Linux {}", outcome.document.kernel.release))
    };
    let mut table = data.by_role.table(&[
        ("title", title.to_owned()),
        ("samples", counted(weight(sampled), "sample")),
        ("kernel", kernel(sampled)),
        ("count", number(weight(exact) as f64)),
        ("exact", kernel(exact)),
        ("large", LARGE_POINTS.to_string()),
    ]);
    let sampled = sampled.and_then(|outcome| Some((outcome, &writer(outcome)?.stacks)));
    let exact = exact.and_then(writer).map(|profile| &profile.stacks);
    table.rows = rows(article, sampled, exact, &[]);
    table
}

/// The differential flame graphs of both profiles.
fn graphs(out: &mut PartOutput, id: &str, title: &str, article: &Folded, measured: &Outcome, what: &str) -> Result<()> {
    let Some(profile) = writer(measured) else { return Ok(()) };
    let (before, after) = (stacks::aligned(article), stacks::aligned(&profile.stacks));
    let difference = Differential::of_shares(&before, &after);
    let release = &measured.document.kernel.release;
    let heading = format!("{title}: article B and Linux {release}, {what}");
    for (shown, name, whose, about) in [
        (Shown::Before, "article", "the article's machine", "widths of the article; blue: less on this machine"),
        (Shown::After, "measured", "this machine", "widths of this machine; red: more than in the article"),
    ] {
        let options = GraphOptions::new(&heading, about, profile.unit, profile.skid);
        out.graphs.push(DiffGraph {
            id: format!("{id}-{name}"),
            title: format!("{title}, {what}: {whose}"),
            about: format!("{about}; one name per function for all kernels, from the system call down"),
            svg: render_diff(&difference, shown, &options)?,
        });
    }
    Ok(())
}
