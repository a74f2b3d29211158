//! tracefs: find its mount, or mount it for this process only.

use anyhow::{Result, anyhow};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// The usual mount points.
const MOUNTED: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// tracefs, mounted by the system or privately by this process.
#[derive(Debug)]
pub(crate) struct Tracefs {
    root: PathBuf,
    mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Find tracefs, or mount it so that only this process sees it.
    ///
    /// # Errors
    /// When neither works, with the reason and the fix.
    pub(crate) fn open() -> Result<Self> {
        for root in MOUNTED {
            if Path::new(root).join("current_tracer").exists() {
                return Ok(Self { root: root.into(), mount: None });
            }
        }
        let mount = || {
            let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_create(&context)?;
            fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
        };
        let mount = mount().map_err(|error: rustix::io::Errno| {
            anyhow!("tracefs is not mounted, and mounting it failed ({error}): run as root, or in a guest (--kernel)")
        })?;
        let root = format!("/proc/self/fd/{}", mount.as_raw_fd()).into();
        Ok(Self { root, mount: Some(mount) })
    }

    /// Whether it is mounted for this process only.
    #[must_use]
    pub(crate) fn is_private(&self) -> bool {
        self.mount.is_some()
    }

    /// Its root folder.
    #[must_use]
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }
}
