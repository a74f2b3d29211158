//! The memory of this machine, from /proc/meminfo.

/// All of it, in bytes.
pub fn total() -> Option<u64> {
    field(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemTotal")
}

/// What can be used without swapping, in bytes.
pub fn available() -> Option<u64> {
    field(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable")
}

fn field(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_kib() {
        let text = "MemTotal:       24000 kB\nMemFree: 1 kB\nBounce: lots kB\nHugePages_Total:       0\n";
        assert_eq!((field(text, "MemTotal"), field(text, "MemFree")), (Some(24_000 << 10), Some(1 << 10)));
        assert_eq!([field(text, "Bounce"), field(text, "HugePages_Total"), field(text, "Mem")], [None; 3]);
        assert!(total() >= available());
    }
}
