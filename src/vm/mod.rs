//! Guests: boot any kernel under QEMU, with this binary as its `/init`.
//!
//! [`store`] caches kernels, [`fetch`] downloads them from the Debian mirror, [`packages`] reads its index, [`deb`]
//! unpacks packages and [`image`] reads image headers. [`initramfs`] packs this binary and a [`Job`], [`qemu`] builds
//! the emulator's command line, and [`guest`] starts and watches the emulator. [`stored`] reads a
//! guest's settings back from a document. Inside the guest, [`crate::guest`] is
//! process 1: it runs the job and answers in frames of [`protocol`].

pub mod deb;
pub mod elf;
pub mod fetch;
pub mod guest;
pub mod image;
pub mod initramfs;
pub mod job;
pub mod kvm;
pub mod machine;
pub mod options;
pub mod packages;
pub mod protocol;
pub mod qemu;
pub mod scratch;
pub mod store;
pub mod stored;
pub mod version;

pub use guest::{GuestReply, run_job};
pub use image::Kernel;
pub use job::Job;
pub use machine::GuestMachine;
pub use options::{Accel, GuestOptions, PluginArgs};
