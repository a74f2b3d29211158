//! All tests but unit tests, one module per subject. They run at the same time: each has its own folders, and judges
//! only what it has started.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod action;
mod answers;
mod architecture;
mod arm64;
mod articles;
mod browser;
mod builds;
mod chaos;
mod collectors;
mod common;
mod compare;
mod compare_cli;
mod compare_guests;
mod cycles;
mod documents;
mod exact;
mod exact_probes;
mod export;
mod faults;
mod follow;
mod foreign;
mod foreign_files;
mod guests;
mod matrix;
mod memory;
mod output;
mod packages;
mod planted;
#[path = "programs/printed.rs"]
mod printed;
mod published;
mod record;
mod repeat;
mod report;
mod reproduce;
mod roles;
mod samples;
mod snapshots;
mod stored;
mod target;
mod workload;
mod workload_calls;
