//! The kernel's build configuration: what is built in, and which options matter to pipes.

use crate::util::regular;
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

/// Options that change what the pipe code executes, or what can measure it. An option unknown to a kernel counts as
/// off.
const THAT_MATTER: &[&str] = &[
    // When a task gives up the CPU, and how often the timer interrupt comes.
    "CONFIG_PREEMPT",
    "CONFIG_PREEMPT_NONE",
    "CONFIG_PREEMPT_VOLUNTARY",
    "CONFIG_PREEMPT_LAZY",
    "CONFIG_PREEMPT_DYNAMIC",
    "CONFIG_PREEMPT_RT",
    "CONFIG_HZ",
    "CONFIG_NO_HZ_FULL",
    "CONFIG_SMP",
    "CONFIG_SCHED_CORE",
    "CONFIG_SCHED_CLASS_EXT",
    "CONFIG_FAIR_GROUP_SCHED",
    "CONFIG_VIRT_CPU_ACCOUNTING_GEN",
    "CONFIG_CONTEXT_TRACKING_USER",
    "CONFIG_PSI",
    "CONFIG_PSI_DEFAULT_DISABLED",
    // Pages: allocation, zeroing, charging.
    "CONFIG_NUMA",
    "CONFIG_MEMCG",
    "CONFIG_MEMCG_KMEM",
    "CONFIG_INIT_ON_ALLOC_DEFAULT_ON",
    "CONFIG_INIT_ON_FREE_DEFAULT_ON",
    "CONFIG_SHUFFLE_PAGE_ALLOCATOR",
    "CONFIG_PAGE_POISONING",
    "CONFIG_MEM_ALLOC_PROFILING",
    "CONFIG_TRANSPARENT_HUGEPAGE",
    "CONFIG_TRANSPARENT_HUGEPAGE_ALWAYS",
    "CONFIG_TRANSPARENT_HUGEPAGE_MADVISE",
    "CONFIG_PER_VMA_LOCK",
    // Checks on each copy, list operation and call.
    "CONFIG_HARDENED_USERCOPY",
    "CONFIG_HARDENED_USERCOPY_DEFAULT_ON",
    "CONFIG_FORTIFY_SOURCE",
    "CONFIG_DEBUG_LIST",
    "CONFIG_LIST_HARDENED",
    "CONFIG_DEBUG_ATOMIC_SLEEP",
    "CONFIG_DEBUG_MUTEXES",
    "CONFIG_DEBUG_PREEMPT",
    "CONFIG_PROVE_LOCKING",
    "CONFIG_LOCK_STAT",
    "CONFIG_KASAN",
    "CONFIG_KCSAN",
    "CONFIG_KMSAN",
    "CONFIG_UBSAN",
    "CONFIG_MUTEX_SPIN_ON_OWNER",
    // Security modules and auditing.
    "CONFIG_SECURITY",
    "CONFIG_SECURITY_APPARMOR",
    "CONFIG_SECURITY_SELINUX",
    "CONFIG_BPF_LSM",
    "CONFIG_AUDITSYSCALL",
    "CONFIG_FSNOTIFY",
    // Mitigations of speculative execution, and code layout.
    "CONFIG_RETPOLINE",
    "CONFIG_RETHUNK",
    "CONFIG_SLS",
    "CONFIG_CPU_SRSO",
    "CONFIG_CPU_UNRET_ENTRY",
    "CONFIG_CPU_IBPB_ENTRY",
    "CONFIG_CPU_IBRS_ENTRY",
    "CONFIG_PAGE_TABLE_ISOLATION",
    "CONFIG_CALL_DEPTH_TRACKING",
    "CONFIG_X86_KERNEL_IBT",
    "CONFIG_CFI",
    "CONFIG_CFI_CLANG",
    "CONFIG_RANDOMIZE_KSTACK_OFFSET_DEFAULT",
    "CONFIG_CC_OPTIMIZE_FOR_SIZE",
    "CONFIG_LTO_CLANG",
    "CONFIG_PARAVIRT",
    // Facilities for measuring.
    "CONFIG_FUNCTION_TRACER",
    "CONFIG_FUNCTION_GRAPH_TRACER",
    "CONFIG_DYNAMIC_FTRACE",
    "CONFIG_KPROBES",
    "CONFIG_KPROBE_EVENTS",
    "CONFIG_FPROBE",
    "CONFIG_BPF_SYSCALL",
    "CONFIG_BPF_EVENTS",
    "CONFIG_DEBUG_INFO_BTF",
    "CONFIG_KALLSYMS_ALL",
    "CONFIG_UNWINDER_ORC",
    "CONFIG_UNWINDER_FRAME_POINTER",
];

/// Option prefixes: every option that begins with one of them matters.
const FAMILIES_THAT_MATTER: &[&str] = &["CONFIG_MITIGATION_"];

/// Options that were renamed, with their present name (Linux 6.9, arch/x86/Kconfig: "x86/bugs: Rename CONFIG_... =>
/// CONFIG_MITIGATION_..."; CFI_CLANG in 6.18).
const RENAMED: &[(&str, &str)] = &[
    ("CONFIG_CALL_DEPTH_TRACKING", "CONFIG_MITIGATION_CALL_DEPTH_TRACKING"),
    ("CONFIG_CFI_CLANG", "CONFIG_CFI"),
    ("CONFIG_CPU_IBPB_ENTRY", "CONFIG_MITIGATION_IBPB_ENTRY"),
    ("CONFIG_CPU_IBRS_ENTRY", "CONFIG_MITIGATION_IBRS_ENTRY"),
    ("CONFIG_CPU_SRSO", "CONFIG_MITIGATION_SRSO"),
    ("CONFIG_CPU_UNRET_ENTRY", "CONFIG_MITIGATION_UNRET_ENTRY"),
    ("CONFIG_PAGE_TABLE_ISOLATION", "CONFIG_MITIGATION_PAGE_TABLE_ISOLATION"),
    ("CONFIG_RETHUNK", "CONFIG_MITIGATION_RETHUNK"),
    ("CONFIG_RETPOLINE", "CONFIG_MITIGATION_RETPOLINE"),
    ("CONFIG_SLS", "CONFIG_MITIGATION_SLS"),
];

/// Mitigations that were compiled in always, until Linux 6.12 made each an option (arch/x86/Kconfig: "x86/bugs: Add a
/// separate config for ..."). A kernel without such an option has the mitigation.
const ONCE_ALWAYS_ON: &[&str] = &[
    "CONFIG_MITIGATION_GDS",
    "CONFIG_MITIGATION_L1TF",
    "CONFIG_MITIGATION_MDS",
    "CONFIG_MITIGATION_MMIO_STALE_DATA",
    "CONFIG_MITIGATION_RETBLEED",
    "CONFIG_MITIGATION_RFDS",
    "CONFIG_MITIGATION_SPECTRE_BHI",
    "CONFIG_MITIGATION_SPECTRE_V1",
    "CONFIG_MITIGATION_SPECTRE_V2",
    "CONFIG_MITIGATION_SRBDS",
    "CONFIG_MITIGATION_SSB",
    "CONFIG_MITIGATION_TAA",
];

/// Options that no longer exist, with the release that removed them, and what they are now.
const REMOVED: &[(&str, &str)] = &[("CONFIG_MEMCG_KMEM", "removed in 6.11: part of CONFIG_MEMCG")];

/// The present name of an option.
#[must_use]
pub(crate) fn present_name(option: &str) -> &str {
    RENAMED.iter().find(|(former, _)| *former == option).map_or(option, |(_, present)| present)
}

/// The value of an option, by its present name, in a configuration that does not have it.
#[must_use]
pub(crate) fn absent_value(option: &str) -> &'static str {
    if ONCE_ALWAYS_ON.contains(&option) {
        "y"
    } else if removed(option).is_some() {
        "-"
    } else {
        "n"
    }
}

/// What became of an option that no longer exists.
#[must_use]
pub(crate) fn removed(option: &str) -> Option<&'static str> {
    REMOVED.iter().find(|(name, _)| *name == option).map(|(_, what)| *what)
}

/// No unpacked configuration is larger than this.
const MAX_BYTES: u64 = 16 << 20;

/// The options of a configuration file by name: those that matter to pipes, with `n` for "is not set", and all others that
/// are built in. Modules are left out.
///
/// # Errors
/// When reading fails, or the text is not a kernel configuration.
pub(crate) fn parse(reader: impl Read) -> io::Result<BTreeMap<String, String>> {
    let mut bytes = Vec::new();
    reader.take(MAX_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut options = BTreeMap::new();
    let mut lines = 0_usize;
    for line in text.lines() {
        let unset = line.strip_prefix("# ").and_then(|rest| rest.strip_suffix(" is not set"));
        let (name, value) = match (unset, line.split_once('=')) {
            (Some(name), _) => (name, "n"),
            (None, Some((name, value))) => (name, value.trim_matches('"')),
            (None, None) => continue,
        };
        if !name.starts_with("CONFIG_") {
            continue;
        }
        lines += 1;
        let matters = THAT_MATTER.contains(&name) || FAMILIES_THAT_MATTER.iter().any(|family| name.starts_with(family));
        if matters || !["n", "m"].contains(&value) {
            options.insert(name.to_owned(), value.to_owned());
        }
    }
    if lines == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a kernel configuration: no line CONFIG_...=..."));
    }
    Ok(options)
}

/// [`parse`] for a file, which may be gzipped.
///
/// # Errors
/// When the file cannot be read or is not a kernel configuration.
pub(crate) fn read_file(path: &Path) -> io::Result<BTreeMap<String, String>> {
    let bytes = regular::read(path, MAX_BYTES)?;
    if bytes.starts_with(&[0x1f, 0x8b]) { parse(GzDecoder::new(&bytes[..])) } else { parse(&bytes[..]) }
}

/// The running kernel's options, as [`parse`] gives them, and the file they were read from. If there is no such file: no options,
/// and the reason.
#[must_use]
pub(crate) fn running(release: &str) -> (BTreeMap<String, String>, String) {
    let candidates = [
        "/proc/config.gz".to_owned(),
        format!("/boot/config-{release}"),
        format!("/usr/lib/modules/{release}/config"),
        format!("/lib/modules/{release}/build/.config"),
    ];
    for path in &candidates {
        match read_file(Path::new(path)) {
            Ok(options) => return (options, path.clone()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return (BTreeMap::new(), format!("not available: {path}: {error}")),
        }
    }
    (BTreeMap::new(), "not available: found neither /proc/config.gz nor a config file for this release".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write as _;

    const CONFIG: &str = "#\n# Linux/x86 6.1.192 Kernel Configuration\n#\nCONFIG_CC_VERSION_TEXT=\"gcc\"\nCONFIG_HZ=250\n\
        # CONFIG_PREEMPT is not set\nCONFIG_NUMA=y\nCONFIG_MITIGATION_SRSO=y\nCONFIG_SOMETHING=m\n";

    #[test]
    fn options_that_matter_or_are_built_in_are_kept() {
        let options = parse(CONFIG.as_bytes()).unwrap();
        let pairs: Vec<_> = options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected = [
            ("CONFIG_CC_VERSION_TEXT", "gcc"),
            ("CONFIG_HZ", "250"),
            ("CONFIG_MITIGATION_SRSO", "y"),
            ("CONFIG_NUMA", "y"),
            ("CONFIG_PREEMPT", "n"),
        ];
        assert_eq!(pairs, expected);
    }

    #[test]
    fn renamed_options_are_one_and_former_defaults_are_on() {
        assert_eq!(present_name("CONFIG_PAGE_TABLE_ISOLATION"), "CONFIG_MITIGATION_PAGE_TABLE_ISOLATION");
        assert_eq!(present_name("CONFIG_NUMA"), "CONFIG_NUMA");
        // Each present name is one that configurations are searched for.
        let kept = |name: &str| THAT_MATTER.contains(&name) || FAMILIES_THAT_MATTER.iter().any(|f| name.starts_with(f));
        assert!(RENAMED.iter().all(|(former, present)| kept(former) && kept(present)));
        assert_eq!(absent_value("CONFIG_MITIGATION_MDS"), "y");
        assert_eq!(absent_value("CONFIG_MITIGATION_RETPOLINE"), "n");
        assert_eq!((absent_value("CONFIG_MEMCG_KMEM"), removed("CONFIG_NUMA")), ("-", None));
    }

    #[test]
    fn packed_files_and_files_that_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.gz");
        let mut encoder =
            flate2::write::GzEncoder::new(std::fs::File::create(&path).unwrap(), flate2::Compression::fast());
        encoder.write_all(CONFIG.as_bytes()).unwrap();
        encoder.finish().unwrap();
        assert_eq!(read_file(&path).unwrap(), parse(CONFIG.as_bytes()).unwrap());
        std::fs::write(&path, "hello\n").unwrap();
        assert!(read_file(&path).is_err());
        std::fs::write(&path, [0x1f, 0x8b, 1]).unwrap();
        assert!(read_file(&path).is_err(), "cut short");
        let (options, reason) = running("no-such-release");
        assert!(options.is_empty() == reason.starts_with("not available"), "{reason}");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes[..]);
        }

        #[test]
        fn every_option_is_read_back(hz in 1_u32..9999, numa: bool) {
            let text = format!("CONFIG_HZ={hz}\n{}\n", if numa { "CONFIG_NUMA=y" } else { "# CONFIG_NUMA is not set" });
            let options = parse(text.as_bytes()).unwrap();
            prop_assert_eq!(&options["CONFIG_HZ"], &hz.to_string());
            prop_assert_eq!(options["CONFIG_NUMA"].as_str(), if numa { "y" } else { "n" });
        }
    }
}
