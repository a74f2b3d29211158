//! tracefs: find its mount, or mount it for this process only.

use anyhow::{Result, anyhow};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// The usual mount points.
const MOUNTED: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// tracefs, mounted by the system or privately by this process.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    mount: Option<OwnedFd>,
}

/// Mount a file system of this kind so that only this process sees it, until the result is dropped.
pub(super) fn mount_privately(kind: &str) -> rustix::io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// The root folder of a private mount.
pub(super) fn root_of(mount: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", mount.as_raw_fd()).into()
}

impl Tracefs {
    /// Find tracefs, or mount it so that only this process sees it.
    pub fn open() -> Result<Self> {
        for root in MOUNTED {
            if Path::new(root).join("current_tracer").exists() {
                return Ok(Self { root: root.into(), mount: None });
            }
        }
        let mount = mount_privately("tracefs").map_err(|error| {
            anyhow!("tracefs is not mounted, and mounting it failed ({error}): run as root, or in a guest (--kernel)")
        })?;
        Ok(Self { root: root_of(&mount), mount: Some(mount) })
    }

    /// Whether it is mounted for this process only.
    pub(crate) fn is_private(&self) -> bool {
        self.mount.is_some()
    }

    /// Its root folder.
    pub fn root(&self) -> &Path {
        &self.root
    }
}
