//! What getting user pages costs. The article measured it on a special kernel.

use super::rungs::COMMAND;
use crate::reproduce::parts::data::UserPagesData;
use crate::reproduce::parts::shared::prelude::*;
use crate::reproduce::parts::shared::{skipped_by_quick, writer};

/// The cost of one user page of 2 MiB relative to one of 4 KiB, from exact profiles.
pub(super) fn user_pages(lab: &Lab<'_>, data: &UserPagesData, out: &mut PartOutput) -> Result<Taken<Reading>> {
    if lab.settings.quick {
        return Ok(Err(skipped_by_quick("ladder")));
    }
    let mut table = data.table.table(&[]);
    let mut costs = [0.0; 2];
    for (cost, NamedSpec { name, axes }) in costs.iter_mut().zip(&data.pages) {
        let spec = Spec { amount: Amount::Calls(512), warmup_bytes: 4 << 20, ..axes.clone() };
        let name_of = format!("user pages of {name}");
        let request = request(&name_of, &spec, vec![Collector::Insn], 1);
        let outcome = match lab.exact(&name_of, &request, &GuestSetup::default())? {
            Ok(outcome) => outcome,
            Err(missing) => return Ok(Err(missing)),
        };
        let totals = outcome.document.processes.writer();
        let pages = totals.bytes as f64 / 4096.0;
        let of = |profile: &Profile, name: &String| stacks::total(&profile.stacks, name) as f64 / pages;
        let per_page = data.functions.each_ref().map(|name| writer(&outcome).map_or(0.0, |profile| of(profile, name)));
        *cost = per_page[0];
        let huge = totals.huge_pages.map_or_else(|| "-".to_owned(), |huge| format!("{} of {}", huge.got, huge.asked));
        table.row([name.clone()].into_iter().chain(per_page.map(number)).chain([huge]));
    }
    let [small, huge] = costs;
    if small <= 0.0 {
        return Ok(Err(Missing::new(format!("{} is not in the profile", data.functions[0]), COMMAND)));
    }
    out.tables.push(table);
    let how = format!("{} instructions per 4 KiB from 4 KiB pages, {} from 2 MiB pages", number(small), number(huge));
    Ok(Ok(Reading::single(huge / small, "ratio", ExecutedOn::Tcg, &how)))
}
