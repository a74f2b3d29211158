//! Guests of a requested machine.

use crate::result::GuestMachine;
use crate::vm::{GuestOptions, Kernel};
use anyhow::Result;
use easy_ext::ext;

#[ext(GuestOf)]
impl GuestMachine {
    /// The guest that boots `kernel`; `None` without one.
    pub fn guest(&self, kernel: Option<&str>) -> Result<Option<GuestOptions>> {
        match kernel {
            Some(kernel) => self.options(kernel).map(Some),
            None => self.check(false).map(|()| None),
        }
    }

    /// The guest that boots `kernel`.
    pub fn options(&self, kernel: &str) -> Result<GuestOptions> {
        self.check(true)?;
        Ok(GuestOptions {
            accel: self.accel,
            cpus: self.cpus(),
            memory_mib: self.memory >> 20,
            cpu: self.cpu.clone(),
            append: self.append.clone(),
            snapshot: !self.no_snapshot,
            boot_limit: self.boot_limit,
            time_limit: self.time_limit,
            ..GuestOptions::of(Kernel::find(kernel)?)
        })
    }
}
