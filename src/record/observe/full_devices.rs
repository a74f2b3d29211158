//! File systems without room.

use crate::record::observe::file_locks::named;
use crate::result::FullDevice;
use crate::util::process_stat;
use crate::util::text::read_lossy;
use std::collections::BTreeMap;

/// What is known of the file system with this device now, by the kernel's number of it; `None` if it is not mounted here.
pub(crate) fn of(device: u32) -> Option<FullDevice> {
    let (major, minor) = (device >> 20, device & 0xf_ffff);
    let path = mounted(&read_lossy("/proc/self/mountinfo").ok()?, &format!("{major}:{minor}"))?;
    let system = rustix::fs::statvfs(&path).ok()?;
    let device = rustix::fs::makedev(major, minor);
    let mut deleted: BTreeMap<(u64, u64), (u32, u64)> = BTreeMap::new();
    for pid in process_stat::ids() {
        // It may have ended, and files of others are secret.
        for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let Ok(stat) = rustix::fs::stat(entry.path()) else { continue };
            if stat.st_dev == device && stat.st_nlink == 0 {
                deleted.entry((stat.st_dev, stat.st_ino)).or_insert((pid, stat.st_blocks.unsigned_abs() * 512));
            }
        }
    }
    let mut holders: BTreeMap<u32, u64> = BTreeMap::new();
    deleted.into_values().for_each(|(pid, bytes)| *holders.entry(pid).or_default() += bytes);
    let mut deleted: Vec<_> =
        holders.into_iter().filter_map(|(pid, bytes)| Some((named(pid)?, bytes)).filter(|_| bytes > 0)).collect();
    deleted.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    Some(FullDevice { path, bytes: system.f_blocks * system.f_frsize, deleted })
}

/// Where a device is mounted (proc_pid_mountinfo(5)): `36 35 98:0 / /mnt1 rw,...`. Of several places, that of all of it.
fn mounted(mounts: &str, device: &str) -> Option<String> {
    let lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mut places: Vec<(&str, &str)> = lines
        .filter_map(|words| match words[..] {
            [_, _, of, root, place, ..] if of == device => Some((root, place)),
            _ => None,
        })
        .collect();
    places.sort_by_key(|(root, place)| (root.len(), place.len()));
    // Blanks in paths are written as their octal numbers.
    places.first().map(|(_, place)| place.replace("\\040", " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_where_all_of_it_is_mounted() {
        let mounts = "22 28 0:21 / /proc rw - proc proc rw\n\
                      30 28 0:27 /part /deep rw - tmpfs tmpfs rw\n\
                      31 28 0:27 / /with\\040blank rw - tmpfs tmpfs rw\n";
        assert_eq!(mounted(mounts, "0:27").as_deref(), Some("/with blank"));
        assert_eq!(mounted(mounts, "8:1"), None);
    }

    #[test]
    fn deleted_files_are_found() {
        use std::io::Write as _;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 65536]).unwrap();
        file.sync_all().unwrap();
        let device = rustix::fs::fstat(&file).unwrap().st_dev;
        let device = rustix::fs::major(device) << 20 | rustix::fs::minor(device);
        // In a container, it may be mounted elsewhere.
        if let Some(found) = of(device) {
            let own = found.deleted.iter().find(|(of, _)| of.pid == std::process::id());
            assert!(own.is_some_and(|(_, bytes)| *bytes >= 65536), "{found:?}");
        }
    }
}
