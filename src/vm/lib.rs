//! Guests: boot any kernel under QEMU, with this binary as its `/init`.
//!
//! [`store`] caches kernels, [`fetch`] downloads them from the Debian mirror, [`packages`] reads its index, [`deb`]
//! unpacks packages and [`image`] reads image headers. [`initramfs`] packs this binary, and [`delivery`] hands over a
//! [`Job`]. [`qemu`] builds the emulator's command line, [`emulator`] starts it, [`watch`] watches it, and [`guest`] is
//! the whole of it, and [`turns`] makes it the same each time. [`snapshots`] caches guests that have booted; [`freeze`] saves
//! and restores them, with [`monitor`]. [`symbol_cache`] keeps the functions of kernels, and [`kernel_name`] says what they
//! may be called. [`bundle`] packs programs and files for a guest, with what [`closure`] finds that they need; [`disk`]
//! makes a disk of files that are too large for its memory.
//! [`compile`] builds kernels for the cache, and [`unpack`] unpacks archives.
//! [`side_by_side`] runs several at a time.
//! Inside the guest, `guest` is process 1: it runs the job and answers in frames of [`protocol`].

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use crate as vm;
pub(crate) use {::arch, ::kernel, ::result, ::util};

pub mod bundle;
pub mod closure;
pub mod compile;
pub mod deb;
pub mod delivery;
pub mod disk;
pub mod elf;
pub mod emulator;
pub mod fetch;
mod find_kernel;
pub mod freeze;
pub mod guest;
pub mod hardware;
pub mod image;
pub mod initramfs;
mod interpreters;
pub mod job;
pub mod kernel_bundle;
pub mod kernel_name;
pub mod kvm;
mod loader_cache;
mod machine;
pub(crate) mod monitor;
pub mod options;
pub mod packages;
pub mod protocol;
pub mod qemu;
pub mod scratch;
pub mod side_by_side;
pub mod snapshots;
pub mod store;
pub mod symbol_cache;
pub mod turns;
mod unpack;
pub mod version;
pub mod watch;

pub use crate::result::{Accel, GuestMachine};
pub use guest::{GuestReply, NoAnswer, run_job};
pub use image::Kernel;
pub use job::Job;
pub use machine::GuestOf;
pub use options::{GuestOptions, PluginArgs};
