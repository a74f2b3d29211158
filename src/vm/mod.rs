//! Guests: boot any kernel under QEMU, with this binary as its `/init`.
//!
//! [`store`] caches kernels, [`fetch`] downloads them from the Debian mirror, [`packages`] reads its index, [`deb`]
//! unpacks packages and [`image`] reads image headers. [`initramfs`] packs this binary and a [`Job`], [`qemu`] builds
//! the emulator's command line, and [`guest`] starts and watches the emulator. [`stored`] reads a guest's settings back
//! from a document. Inside the guest, [`crate::guest`] is process 1: it runs the job and answers in frames of
//! [`protocol`].

pub(crate) mod deb;
pub(crate) mod elf;
pub(crate) mod fetch;
pub(crate) mod guest;
pub(crate) mod image;
pub(crate) mod initramfs;
pub mod job;
pub(crate) mod kvm;
pub(crate) mod machine;
pub(crate) mod options;
pub(crate) mod packages;
pub(crate) mod protocol;
pub mod qemu;
pub(crate) mod scratch;
pub mod store;
pub(crate) mod stored;
pub(crate) mod version;

pub use guest::{GuestReply, run_job};
pub use image::Kernel;
pub use job::Job;
pub(crate) use machine::GuestMachine;
pub use options::{Accel, GuestOptions, PluginArgs};
