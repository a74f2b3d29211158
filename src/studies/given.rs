//! Flags of `pipeprof run` that a study adds to stored results.

use crate::run::RunOptions;

/// The options of the flags, and which of the guest's machine were given, be it with their defaults.
#[derive(Debug, Clone, Default)]
pub struct GivenFlags {
    pub options: RunOptions,
    pub machine: GivenMachine,
}

/// Which settings of the guest's machine were given.
#[derive(Debug, Clone, Copy, Default)]
pub struct GivenMachine {
    pub accel: bool,
    pub cpus: bool,
    pub memory: bool,
    pub append: bool,
    pub cpu: bool,
}
