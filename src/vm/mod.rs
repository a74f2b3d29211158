//! Guests: any kernel under QEMU, with this very binary as its `/init`.
//!
//! [`store`] keeps kernels ([`fetch`] gets them from the Debian mirror, whose index [`packages`] reads, [`deb`] unpacks them, [`image`] reads their
//! headers); [`initramfs`] packs this binary and a [`Job`]; [`qemu`] is the one place where the emulator's command
//! line is made; [`guest`] starts it and watches it. The other side is [`crate::guest`], process 1 of the guest, which does the
//! job and answers in the frames of [`protocol`].

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
pub mod version;

pub use guest::{GuestReply, run_job};
pub use image::Kernel;
pub use job::Job;
pub use machine::GuestMachine;
pub use options::{Accel, GuestOptions, PluginArgs};
