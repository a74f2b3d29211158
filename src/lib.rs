//! pipeprof: kernel profiles of pipe system calls.
//!
//! A tour, lowest layer first. A module depends on earlier ones only; tests/architecture.rs checks it.
//!
//! - [`arch`]: what differs by processor;
//! - [`util`]: units, statistics, files that are written whole or not at all, signals;
//! - [`experiment`]: cells measured alternately, stored, resumed, ended by a rule;
//! - [`roles`]: tables that map kernel functions to what their time is spent on;
//! - [`kernel`]: the running kernel's symbols, configuration and features;
//! - [`profile`]: stacks, folding, attribution to roles; no input or output;
//! - [`process`]: what is measured: processes, and what each of them did;
//! - [`workload`]: the built-in writer and reader, and what they move;
//! - [`result`]: the form of requests and results: `result.json`;
//! - [`collect`]: one module per collector, each with its BPF or plugin half;
//! - [`vm`]: kernels, guests, and the protocol between host and guest;
//! - [`run`]: one [`result::Request`] in, one [`result::Outcome`] out;
//! - [`guest`]: process 1 of a guest, which calls [`run`];
//! - [`report`]: terminal, files, flame graphs;
//! - [`record`]: any pipeline: what its wall time was made of;
//! - [`compare`]: what differs between outcomes;
//! - [`search`]: which options and commits change the instructions of a pipe;
//! - [`sweep`]: all combinations of some axes of a workload;
//! - [`reproduce`]: the experiments of three articles, and a comparison with their figures;
//! - [`campaign`]: thousands of exact runs on many machines;
//! - [`history`]: what changed over a series of kernels;
//! - [`studies`]: kernels tested, searched and explained by many results;
//! - [`export`]: results in the formats of other programs;
//! - [`import`]: profiles that other tools took;
//! - [`cli`]: one file per subcommand;
//! - [`fuzz`]: the readers of input from outside, for fuzzing; part of fuzzing builds and unit tests only.

// They panic when they cannot write: util::streams has others.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod cli;
#[cfg(any(doc, fuzzing, test))]
pub mod fuzz;

pub use {
    ::arch, ::campaign, ::collect, ::compare, ::experiment, ::export, ::guest, ::history, ::import, ::kernel,
    ::process, ::profile, ::record, ::report, ::reproduce, ::result, ::roles, ::run, ::search, ::studies, ::sweep,
    ::util, ::vm, ::workload,
};
