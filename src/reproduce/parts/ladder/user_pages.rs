//! What getting user pages costs, for which the article needed a kernel of its own.

use super::vmsplice;
use crate::document::Collector;
use crate::profile::ProcessName;
use crate::reproduce::lab::{GuestSetup, Lab};
use crate::reproduce::result::{ExtraTable, Yield};
use crate::reproduce::stacks;
use crate::reproduce::verdict::{Missing, Reading, number};
use crate::run::bench::request;
use crate::workload::Spec;
use crate::workload::spec::{Amount, Reader};
use anyhow::Result;

/// What getting one user page costs, for pages of both sizes: from exact profiles.
pub(super) fn user_pages(lab: &Lab<'_>, out: &mut Yield) -> Result<()> {
    const NAMES: [&str; 2] = ["iov_iter_get_pages2", "internal_get_user_pages_fast"];
    let note = "Instructions per 4 KiB page of the buffer, callees included, counted exactly in the guest by the \
        instruction collector (emulated: instructions are not time). The article read this off a kernel built with \
        CONFIG_GUP_TEST.";
    let header = ["pages", NAMES[0], NAMES[1], "huge pages got"];
    let mut table = ExtraTable::new("Getting user pages: instructions per 4 KiB page", &header, note);
    if lab.settings.quick {
        let missing = Missing::new("left out by --quick: counted in guests", "pipeprof reproduce ladder");
        out.readings.insert("A.claims.gup".to_owned(), Err(missing));
        return Ok(());
    }
    let mut costs = Vec::new();
    let mut missing = None;
    for (name, huge_pages) in [("4 KiB", false), ("2 MiB", true)] {
        let spec = Spec { huge_pages, amount: Amount::Calls(512), warmup_bytes: 4 << 20, ..vmsplice(Reader::Splice) };
        let request = request(&format!("user pages of {name}"), &spec, vec![Collector::Insn], 1);
        match lab.exact(&format!("user pages of {name}"), &request, &GuestSetup::default())? {
            Ok(outcome) => {
                let writer = outcome.document.processes.writer();
                let profile =
                    outcome.profiles.iter().find(|p| p.process == ProcessName::WRITER && p.collector == "insn");
                let pages = writer.bytes as f64 / 4096.0;
                let per_page =
                    |name: &str| profile.map_or(0.0, |profile| stacks::inclusive(&profile.stacks, name) as f64 / pages);
                costs.push(per_page(NAMES[0]));
                let huge =
                    writer.huge_pages.map_or_else(|| "-".to_owned(), |h| format!("{} of {} bytes", h.got, h.asked));
                table.rows.push(vec![name.to_owned(), number(per_page(NAMES[0])), number(per_page(NAMES[1])), huge]);
            }
            Err(why) => missing = Some(why),
        }
    }
    let reading = match (&costs[..], missing) {
        ([small, huge], _) if *small > 0.0 => {
            let how = format!("{} instructions per page of 4 KiB, {} of 2 MiB", number(*small), number(*huge));
            Ok(Reading::single(huge / small, "of before", crate::document::ExecutedOn::Tcg, &how))
        }
        (_, Some(missing)) => Err(missing),
        _ => Err(Missing::new("the profile has no such function", "pipeprof reproduce ladder")),
    };
    if reading.is_ok() {
        out.tables.push(table);
    }
    out.readings.insert("A.claims.gup".to_owned(), reading);
    Ok(())
}
