//! The guest's disk, from which a pipeline reads files that are too large for its memory. [`crate::vm::disk`] makes it.

use crate::vm::disk::DiskPlace;
use anyhow::{Context as _, Result, bail, ensure};
use rustix::fs::{CWD, FileType, Mode};
use rustix::mount::{MountFlags, mount, mount_bind};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

/// The only disk.
const NAME: &str = "nvme0n1";

/// Exists if the kernel has the driver.
const DRIVER: &str = "/sys/bus/pci/drivers/nvme";

/// Where the disk is mounted.
const ROOT: &str = "/.pipeprof-disk";

/// The driver finds the disk while init already runs. Limit for that, on the guest's clock, and time between two looks.
const LIMIT: Duration = Duration::from_secs(60);
const PACE: Duration = Duration::from_millis(5);

/// What to do without a disk.
const INSTEAD: &str = "use another kernel, such as one of Debian, or give the guest more --memory, so that the files fit \
                       into it";

/// Mount the disk, read-only, and put its files and folders in their places.
pub fn mount_places(places: &[DiskPlace]) -> Result<()> {
    if places.is_empty() {
        return Ok(());
    }
    ensure!(
        Path::new(DRIVER).exists(),
        "this kernel cannot read a disk with files: it has no NVMe driver built in (CONFIG_BLK_DEV_NVME=y): {INSTEAD}"
    );
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    ensure!(
        known.lines().any(|line| line.trim() == "ext4"),
        "this kernel cannot read a disk with files: it has no ext4 built in (CONFIG_EXT4_FS=y): {INSTEAD}"
    );
    let device = device()?;
    fs::create_dir_all(ROOT).with_context(|| ROOT.to_owned())?;
    mount(&device, ROOT, "ext4", MountFlags::RDONLY, None).context("cannot mount the disk with files")?;
    for place in places {
        put(place).with_context(|| format!("cannot put {} in its place", place.at.display()))?;
    }
    Ok(())
}

/// Wait for the disk, and return the path of its device.
fn device() -> Result<String> {
    let (path, number) = (format!("/dev/{NAME}"), format!("/sys/class/block/{NAME}/dev"));
    let begun = Instant::now();
    loop {
        if Path::new(&path).exists() {
            return Ok(path);
        }
        // A kernel without devtmpfs makes no devices.
        if let Ok(numbers) = fs::read_to_string(&number)
            && let Some((major, minor)) = numbers.trim().split_once(':')
            && let (Ok(major), Ok(minor)) = (major.parse(), minor.parse())
        {
            // If it exists by now, the next look finds it.
            let mode = Mode::RUSR | Mode::WUSR;
            let _ = rustix::fs::mknodat(CWD, &path, FileType::BlockDevice, mode, rustix::fs::makedev(major, minor));
            continue;
        }
        if begun.elapsed() > LIMIT {
            bail!(
                "the disk with files did not appear as {path} within {} s of the guest's clock: {INSTEAD}",
                LIMIT.as_secs()
            );
        }
        std::thread::sleep(PACE);
    }
}

fn put(place: &DiskPlace) -> Result<()> {
    let from = Path::new(ROOT).join(&place.on_disk);
    if place.folder && place.at.parent().is_none() {
        return fill(&from, &place.at);
    }
    if let Some(parent) = place.at.parent() {
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    }
    if place.folder {
        fs::create_dir_all(&place.at)?;
    } else if !place.at.exists() {
        File::create(&place.at)?;
    }
    Ok(mount_bind(from, &place.at)?)
}

/// Put what a folder of the disk contains into a folder of the guest. The guest's root cannot be replaced, and folders that it
/// already has, such as /dev, keep what is in them. Empty folders, such as /tmp, can be written.
fn fill(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry.with_context(|| from.display().to_string())?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        place_entry(&from, &to).with_context(|| to.display().to_string())?;
    }
    Ok(())
}

fn place_entry(from: &Path, to: &Path) -> Result<()> {
    if let Ok(target) = fs::read_link(from)
        && to.symlink_metadata().is_err()
    {
        return Ok(symlink(target, to)?);
    }
    if from.is_dir() {
        if to.is_dir() {
            return fill(from, to);
        }
        fs::create_dir(to)?;
        if fs::read_dir(from)?.next().is_none() {
            return Ok(());
        }
    } else if !to.exists() {
        File::create(to)?;
    }
    Ok(mount_bind(from, to)?)
}
