//! Whether KVM serves here: tried, never assumed from the device node, and a failure remembered until the host is
//! booted anew, so that `--accel auto` waits for its time limit only once.

use crate::util::atomic_file;
use crate::vm::store::Store;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// How long a guest under KVM may take to its init before `auto` gives it up; under KVM that takes a second.
pub const LIMIT: Duration = Duration::from_secs(15);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Verdict {
    boot_id: String,
    qemu: String,
    why: String,
}

/// Whether KVM is worth trying; otherwise why not.
///
/// # Errors
/// The reason, for people.
pub fn usable(qemu: &str) -> Result<(), String> {
    if let Err(error) = fs::File::options().read(true).write(true).open("/dev/kvm") {
        return Err(match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                "/dev/kvm is not open to this user (on Debian: adduser $USER kvm, then log in anew)".to_owned()
            }
            std::io::ErrorKind::NotFound => "there is no /dev/kvm".to_owned(),
            _ => format!("/dev/kvm: {error}"),
        });
    }
    let remembered = path().and_then(|path| fs::read(path).ok());
    match remembered.and_then(|bytes| serde_json::from_slice::<Verdict>(&bytes).ok()) {
        Some(verdict) if verdict.boot_id == boot_id() && verdict.qemu == qemu => {
            let path = path().unwrap_or_default();
            Err(format!("{} (tried since this machine's boot; remove {} to try again)", verdict.why, path.display()))
        }
        _ => Ok(()),
    }
}

/// Remember that a guest did not start.
pub(crate) fn remember(qemu: &str, why: &str) {
    let verdict = Verdict { boot_id: boot_id(), qemu: qemu.to_owned(), why: why.to_owned() };
    if let (Some(path), Ok(bytes)) = (path(), serde_json::to_vec_pretty(&verdict)) {
        // Without it the next run tries again, no more.
        let _ = path.parent().map(fs::create_dir_all);
        let _ = atomic_file::write(&path, &bytes);
    }
}

fn path() -> Option<PathBuf> {
    Some(Store::open().ok()?.root().join("kvm.json"))
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}
