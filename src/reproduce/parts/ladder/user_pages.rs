//! What getting user pages costs. The article measured it on a special kernel.

use super::{COMMAND, spliced};
use crate::reproduce::parts::prelude::*;
use crate::reproduce::parts::{skipped_by_quick, writer};

/// The functions whose instructions are counted, callees included.
const NAMES: [&str; 2] = ["iov_iter_get_pages2", "internal_get_user_pages_fast"];

/// The cost of one user page of 2 MiB relative to one of 4 KiB, from exact profiles.
pub(super) fn user_pages(lab: &Lab<'_>, out: &mut Yield) -> Result<Taken<Reading>> {
    if lab.settings.quick {
        return Ok(Err(skipped_by_quick("ladder")));
    }
    let note = "Instructions per 4 KiB of the buffer, callees included, counted exactly in an emulated guest (instructions are \
        not time). The article measured this on a kernel with CONFIG_GUP_TEST.";
    let header = format!("pages | {} | {} | bytes in huge pages", NAMES[0], NAMES[1]);
    let mut table = ExtraTable::new("Getting user pages: instructions per 4 KiB page", &header, note);
    let mut costs = [0.0; 2];
    for (cost, (name, huge_pages)) in costs.iter_mut().zip([("4 KiB", false), ("2 MiB", true)]) {
        let spec = Spec { huge_pages, amount: Amount::Calls(512), warmup_bytes: 4 << 20, ..spliced() };
        let name_of = format!("user pages of {name}");
        let request = request(&name_of, &spec, vec![Collector::Insn], 1);
        let outcome = match lab.exact(&name_of, &request, &GuestSetup::default())? {
            Ok(outcome) => outcome,
            Err(missing) => return Ok(Err(missing)),
        };
        let totals = outcome.document.processes.writer();
        let pages = totals.bytes as f64 / 4096.0;
        let per_page = NAMES
            .map(|name| writer(&outcome).map_or(0.0, |profile| stacks::total(&profile.stacks, name) as f64 / pages));
        *cost = per_page[0];
        let huge = totals.huge_pages.map_or_else(|| "-".to_owned(), |huge| format!("{} of {}", huge.got, huge.asked));
        table.row([name.to_owned()].into_iter().chain(per_page.map(number)).chain([huge]));
    }
    let [small, huge] = costs;
    if small <= 0.0 {
        return Ok(Err(Missing::new(format!("{} is not in the profile", NAMES[0]), COMMAND)));
    }
    out.tables.push(table);
    let how = format!("{} instructions per 4 KiB from 4 KiB pages, {} from 2 MiB pages", number(small), number(huge));
    Ok(Ok(Reading::single(huge / small, "ratio", ExecutedOn::Tcg, &how)))
}
