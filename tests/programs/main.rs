//! What tests start besides pipeprof: a pipeprof with further subcommands. It can be the init of a guest, whose jobs then
//! have these subcommands as well.

mod follow;
mod gallery;
mod hang;
mod kernel_objects;
mod leftovers;
mod printed;
mod stage;

use clap::{CommandFactory as _, Parser};
use std::process::ExitCode;

/// A first argument that is one of these; any other is pipeprof's.
#[derive(Debug, Parser)]
enum Program {
    Follow(follow::FollowArgs),
    Gallery(gallery::GalleryArgs),
    Hang(hang::HangArgs),
    /// List what collectors that have ended left in this kernel
    KernelObjects,
    Leftovers(leftovers::LeftoversArgs),
    /// Restart this machine at once, if it is a guest
    Restart,
    Stage(stage::StageArgs),
}

impl Program {
    fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Follow(args) => args.run(),
            Self::Gallery(args) => args.run(),
            Self::Hang(args) => args.run(),
            Self::KernelObjects => kernel_objects::print_abandoned(),
            Self::Leftovers(args) => args.run(),
            Self::Restart => restart(),
            Self::Stage(args) => args.run(),
        }
    }
}

fn main() -> ExitCode {
    let first = std::env::args().nth(1);
    let own = |word: &String| Program::command().find_subcommand(word).is_some();
    if !first.as_ref().is_some_and(own) {
        return pipeprof::cli::main();
    }
    match Program::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("test-programs: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// As if the machine had failed.
fn restart() -> anyhow::Result<()> {
    anyhow::ensure!(std::path::Path::new("/init").exists(), "this is not a guest of pipeprof");
    // SAFETY: reboot(2) accesses no memory of this process.
    unsafe { libc::reboot(libc::LINUX_REBOOT_CMD_RESTART) };
    Err(std::io::Error::last_os_error().into())
}
