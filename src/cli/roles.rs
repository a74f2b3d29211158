//! `pipeprof roles`: the functions of each role on a kernel, and which probes can reach them.

use super::global;
use crate::cli::guest_args::GuestArgs;
use crate::kernel::info::KernelInfo;
use crate::kernel::reach::Live;
use crate::kernel::resolve;
use crate::kernel::resolve::{NAMED_TARGETS, Reach, Resolution};
use crate::kernel::symbols::{Symbols, SymbolsError};
use crate::report::table::Table;
use crate::report::terminal::Style;
use crate::roles;
use crate::util::cancel;
use crate::util::styled_text::StyledText;
use crate::vm;
use anyhow::{Context as _, Result};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::process::ExitCode;

/// List the roles, their functions on a kernel, and which probes can reach them
///
/// A role is a purpose on which kernel time is spent, such as page allocation.
#[derive(Debug, Args)]
pub(crate) struct RolesArgs {
    /// Print JSON, including candidate functions that were rejected
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    guest: GuestArgs,
}

/// What `--json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RolesReport {
    schema: String,
    /// `uname -r`.
    release: String,
    /// Whether the kernel hides its addresses from this user.
    addresses_hidden: bool,
    roles: Vec<Resolution>,
}

impl RolesArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        cancel::install().context("cannot install signal handlers")?;
        let report = match self.guest.options()? {
            Some(options) => {
                let job = vm::Job::Command(vec!["roles".to_owned(), "--json".to_owned()]);
                let reply = vm::run_job(&options, &job)?;
                for note in &reply.notes {
                    crate::util::progress::note(&note.message);
                }
                reply.parse()?
            }
            None => RolesReport::here()?,
        };
        global::print(self.json, &report, || report.text())?;
        Ok(ExitCode::SUCCESS)
    }
}

impl RolesReport {
    fn here() -> Result<Self> {
        let symbols = Symbols::running()?;
        Ok(Self {
            schema: "pipeprof.roles/1".to_owned(),
            release: KernelInfo::running().release,
            addresses_hidden: symbols.hidden(),
            roles: resolve::resolve(&symbols, &Live::running()),
        })
    }

    fn text(&self) -> StyledText {
        let mut reasons = Vec::new();
        let rows: Vec<[String; 4]> = self.roles.iter().map(|resolution| row(resolution, &mut reasons)).collect();
        let mut table = Table::of(format!("Roles on {}", self.release), &rows)
            .column("role", |row| &row[0][..])
            .column("function", |row| &row[1][..])
            .column("countable by", |row| &row[2][..])
            .column("not by (reason)", |row| &row[3][..])
            .done();
        table.wraps = true;
        let mut text = table.text(Style::of_stdout());
        text.push_str("\n");
        for (index, reason) in reasons.iter().enumerate() {
            let _ = writeln!(text, "({}) {reason}", index + 1);
        }
        text.push_str("*   one of the four functions named in the README\n");
        text.push_str(
            "Samples and instructions are attributed to every role, even where its calls cannot be counted.\n",
        );
        if self.addresses_hidden {
            let _ = writeln!(text, "Hardware breakpoints were not tried: {}.", SymbolsError::Hidden);
        }
        text
    }
}

/// The row of one role. Reasons are kept once, in `reasons`, and referred to by number.
fn row(resolution: &Resolution, reasons: &mut Vec<String>) -> [String; 4] {
    let role = roles::by_id(resolution.role);
    let star = if NAMED_TARGETS.contains(&resolution.role) { " *" } else { "" };
    if role.candidates.is_empty() {
        return [role.title.to_owned(), "-".to_owned(), "-".to_owned(), String::new()];
    }
    let symbol = resolution.symbol.clone().unwrap_or_else(|| "not in this kernel".to_owned());
    let reach: Vec<_> = resolution.reach.iter().map(|reach| name(*reach)).collect();
    let why_not: Vec<_> = resolution
        .why_not
        .iter()
        .map(|text| {
            let (way, reason) = text.split_once(": ").unwrap_or(("", text));
            let known = reasons.iter().position(|known| known == reason);
            let number = known.unwrap_or_else(|| {
                reasons.push(reason.to_owned());
                reasons.len() - 1
            });
            format!("{way} ({})", number + 1)
        })
        .collect();
    [format!("{}{star}", role.title), symbol, reach.join(", "), why_not.join(", ")]
}

fn name(reach: Reach) -> &'static str {
    match reach {
        Reach::Kprobe => "kprobe",
        Reach::Fentry => "fentry",
        Reach::HardwareBreakpoint => "breakpoint",
        Reach::SamplingOnly => "nothing",
    }
}
