//! The parts of a reproduction: what they run and say is in `parts.toml`, what the articles published in `facts.json`. To
//! add one: a file in this folder, and an entry in [`PARTS`].

mod buffers;
mod cat;
pub mod data;
mod ladder;
mod memory;
mod profiles;
mod programs;
mod scale;
mod shared;

use shared::prelude::*;

pub struct ArticlePart {
    /// Its name on the command line.
    pub id: &'static str,
    /// For headings.
    pub title: &'static str,
    /// One line for the help, and the first one of its section in the report.
    pub about: &'static str,
    /// Measures. Fails on interruption, or when results cannot be stored; what cannot be measured is a [`Missing`] reading.
    pub run: fn(&Lab<'_>, &Facts) -> Result<PartOutput>,
}

/// All parts, in the order of the report.
pub const PARTS: &[ArticlePart] = &[
    ArticlePart {
        id: "ladder",
        title: "The ladder: from write to busy-looping vmsplice",
        about: "Six versions of a program, each faster than the one before, and what each step removes (article A)",
        run: ladder::run,
    },
    ArticlePart {
        id: "memory",
        title: "Memory: the upper bounds",
        about: "Memory bandwidth in user space, and what fraction of it a pipe reaches (articles A and B)",
        run: memory::run,
    },
    ArticlePart {
        id: "buffers",
        title: "Buffer sizes",
        about: "Throughput, system calls and instructions for different buffer sizes (article B)",
        run: buffers::run,
    },
    ArticlePart {
        id: "cat",
        title: "A cat clone, five ways",
        about: "cat with stdio, read/write and splice, into head and dd, compared with the installed cat (article C)",
        run: cat::run,
    },
    ArticlePart {
        id: "profiles",
        title: "Profiles: call trees of the articles and of this machine",
        about: "Shares by role and differential flame graphs, with the reason for each large difference (articles A and B)",
        run: profiles::run,
    },
    ArticlePart {
        id: "scale",
        title: "Scale: many pipes, many writers, many readers",
        about: "Several pipes, writers or readers at once, and when the pipe's lock dominates (article B)",
        run: scale::run,
    },
];

/// The part called `id`.
pub fn find(id: &str) -> Option<&'static ArticlePart> {
    PARTS.iter().find(|part| part.id == id)
}
