//! Guests: any kernel under QEMU, with this very binary as its `/init`.
//!
//! [`store`] keeps kernels ([`fetch`] gets them from the Debian mirror, [`deb`] unpacks them, [`image`] reads their
//! headers); [`initramfs`] packs this binary and a [`Job`]; [`qemu`] is the one place where the emulator's command
//! line is made; [`guest`] starts it and watches it; [`init`] is the other side, process 1 of the guest, which does the
//! job and answers in the frames of [`protocol`]. [`guest_cgroup`] is the memory cgroup of the guest's workload.

pub mod deb;
pub mod elf;
pub mod fetch;
pub mod guest;
pub mod guest_cgroup;
pub mod image;
pub mod init;
pub mod initramfs;
pub mod job;
pub mod kvm;
pub mod options;
pub mod protocol;
pub mod qemu;
pub mod scratch;
pub mod store;
pub mod version;

pub use guest::{GuestReply, run_job};
pub use image::Kernel;
pub use job::Job;
pub use options::{Accel, GuestOptions, PluginArgs};
