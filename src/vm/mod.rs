//! Guests: boot any kernel under QEMU, with this binary as its `/init`.
//!
//! [`store`] caches kernels, [`fetch`] downloads them from the Debian mirror, [`packages`] reads its index, [`deb`]
//! unpacks packages and [`image`] reads image headers. [`initramfs`] packs this binary, and [`delivery`] hands over a
//! [`Job`]. [`qemu`] builds the emulator's command line, [`emulator`] starts it, [`watch`] watches it, and [`guest`] is
//! the whole of it, and [`turns`] makes it the same each time. [`snapshots`] caches guests that have booted; [`freeze`] saves
//! and restores them, with [`monitor`]. [`symbol_cache`] keeps the functions of kernels, and [`kernel_name`] says what they
//! may be called. [`bundle`] packs programs and files for a guest, with what [`closure`] finds that they need; [`disk`]
//! makes a disk of files that are too large for its memory.
//! [`build`] builds kernels for the cache, and [`unpack`] unpacks archives.
//! Inside the guest, [`crate::guest`] is process 1: it runs the job and answers in frames of [`protocol`].

pub(crate) mod build;
pub(crate) mod bundle;
pub(crate) mod closure;
pub(crate) mod deb;
pub(crate) mod delivery;
pub(crate) mod disk;
pub(crate) mod elf;
pub(crate) mod emulator;
pub(crate) mod fetch;
pub(crate) mod freeze;
pub(crate) mod guest;
pub(crate) mod image;
pub(crate) mod initramfs;
pub mod job;
pub(crate) mod kernel_bundle;
pub(crate) mod kernel_name;
pub(crate) mod kvm;
mod machine;
pub(crate) mod monitor;
pub(crate) mod options;
pub(crate) mod packages;
pub(crate) mod protocol;
pub mod qemu;
pub(crate) mod scratch;
pub(crate) mod snapshots;
pub mod store;
pub(crate) mod symbol_cache;
pub(crate) mod turns;
mod unpack;
pub(crate) mod version;
pub(crate) mod watch;

pub use crate::result::{Accel, GuestMachine};
pub use guest::{GuestReply, run_job};
pub use image::Kernel;
pub use job::Job;
pub use options::{GuestOptions, PluginArgs};
