//! tracefs: where it is, or a mount of it for this process alone.

use anyhow::{Result, anyhow};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// Where tracefs is mounted, if it is.
const MOUNTED: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// tracefs, mounted by someone or privately by this process.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Find it, or mount it where only this process sees it.
    ///
    /// # Errors
    /// When neither is possible: why, and what would help.
    pub fn open() -> Result<Self> {
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
            anyhow!("tracefs is not mounted and cannot be ({error}): run as root, or inside a guest with --kernel")
        })?;
        let root = format!("/proc/self/fd/{}", mount.as_raw_fd()).into();
        Ok(Self { root, mount: Some(mount) })
    }

    /// Whether it is mounted for this process alone.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.mount.is_some()
    }

    /// Its top folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
}
