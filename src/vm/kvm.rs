//! Whether KVM can boot a guest on this machine. A device node proves nothing, so KVM is tried. A failure is
//! remembered until the host reboots, so that `--accel auto` waits for its time limit only once.

use crate::util::{atomic_file, regular, stored_json};
use crate::vm::store::KernelCache;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// How long a KVM guest may take to reach init before `auto` falls back to TCG. A working one needs about a second.
pub const LIMIT: Duration = Duration::from_secs(15);

/// The longest description of a failure, bytes.
const LONGEST: u64 = 1 << 20;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KnownFailure {
    boot_id: String,
    qemu: String,
    why: String,
}

/// Why KVM is not worth trying.
#[derive(Debug, thiserror::Error)]
pub enum NoKvm {
    #[error("no permission to open /dev/kvm (on Debian: adduser $USER kvm, then log in again)")]
    NotPermitted,
    #[error("{0}")]
    Other(String),
}

/// Check whether KVM is worth trying.
pub fn usable(qemu: &str) -> Result<(), NoKvm> {
    if let Err(error) = fs::File::options().read(true).write(true).open("/dev/kvm") {
        return Err(match error.kind() {
            std::io::ErrorKind::PermissionDenied => NoKvm::NotPermitted,
            std::io::ErrorKind::NotFound => NoKvm::Other("/dev/kvm does not exist".to_owned()),
            _ => NoKvm::Other(format!("/dev/kvm: {error}")),
        });
    }
    let remembered = path().and_then(|path| regular::read(&path, LONGEST).ok());
    match remembered.and_then(|bytes| stored_json::parse::<KnownFailure>(&bytes).ok()) {
        Some(verdict) if verdict.boot_id == boot_id() && verdict.qemu == qemu => {
            let path = path().unwrap_or_default();
            let path = path.display();
            Err(NoKvm::Other(format!("{} (result since this machine booted; remove {path} to try again)", verdict.why)))
        }
        _ => Ok(()),
    }
}

/// Remember that a guest did not start.
pub fn remember(qemu: &str, why: &str) {
    let verdict = KnownFailure { boot_id: boot_id(), qemu: qemu.to_owned(), why: why.to_owned() };
    if let (Some(path), Ok(text)) = (path(), stored_json::stored_text(&verdict)) {
        // If this fails, the next run tries KVM again.
        let _ = path.parent().map(fs::create_dir_all);
        let _ = atomic_file::write(&path, text.as_bytes());
    }
}

fn path() -> Option<PathBuf> {
    Some(KernelCache::open().ok()?.root().join("kvm.json"))
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn what_is_written_of_a_failure_is_read(boot_id: String, qemu: String, why: String) {
            let failure = KnownFailure { boot_id, qemu, why };
            let text = stored_json::stored_text(&failure).unwrap();
            proptest::prop_assert_eq!(stored_json::parse::<KnownFailure>(text.as_bytes()).unwrap(), failure);
        }
    }
}
