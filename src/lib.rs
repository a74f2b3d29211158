//! pipeprof: kernel profiles of pipe system calls.
//!
//! A tour, in the order in which data travels:
//!
//! - [`kernel`] reads this kernel: symbols, roles, configuration, features;
//! - [`profile`] is pure: stacks, folding, attribution to roles;
//! - [`workload`] launches writers and readers and counts what they move;
//! - [`document`] is the form of what a run asks and yields: `run.json`;
//! - [`collect`] has one module per collector, each with its BPF or plugin half;
//! - [`run`] puts the above together: one [`document::Request`] in, one [`document::Outcome`] out;
//! - [`vm`] does the same request inside another kernel, where [`guest`] is process 1;
//! - [`report`] renders an outcome: terminal, files, flame graphs;
//! - [`compare`] says what differs between outcomes;
//! - [`reproduce`] runs the articles' experiments and sets them beside ours;
//! - [`cli`] is one file per subcommand.
//!
//! Dependencies point one way, from the bottom of this list to its top.

pub mod cli;
pub mod collect;
pub mod compare;
pub mod document;
pub mod guest;
pub mod kernel;
pub mod profile;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod util;
pub mod vm;
pub mod workload;
