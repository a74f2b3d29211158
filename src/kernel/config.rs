//! The kernel's build configuration: what is built in, and which options matter to pipes.

use crate::util::regular;
use flate2::read::GzDecoder;
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read};
use std::path::Path;
use std::sync::LazyLock;

/// `options.toml`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    #[serde(deserialize_with = "names")]
    matter: HashSet<String>,
    /// What begins so matters.
    families: Vec<String>,
    #[serde(deserialize_with = "names")]
    once_always_on: HashSet<String>,
    renamed: BTreeMap<String, String>,
    removed: BTreeMap<String, String>,
    functions: BTreeMap<String, String>,
    measured: BTreeMap<String, MeasuredOption>,
}

/// What a search for options has found.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasuredOption {
    /// Source and compiler.
    on: String,
    /// By mode.
    change: BTreeMap<String, String>,
}

fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HashSet<String>, D::Error> {
    let lists = Vec::<String>::deserialize(deserializer)?;
    Ok(lists.iter().flat_map(|names| names.split_whitespace()).map(str::to_owned).collect())
}

// The tests parse it, too.
static OPTIONS: LazyLock<Options> = LazyLock::new(|| toml::from_str(include_str!("options.toml")).unwrap_or_default());

/// Whether an option changes what the pipe code executes, or what can measure it.
pub fn matters(option: &str) -> bool {
    OPTIONS.matter.contains(option) || OPTIONS.families.iter().any(|family| option.starts_with(family))
}

pub fn present_name(option: &str) -> &str {
    OPTIONS.renamed.get(option).map_or(option, String::as_str)
}

/// The functions that a kernel has only with this option.
pub fn functions_of(option: &str) -> impl Iterator<Item = &'static str> {
    OPTIONS.functions.get(option).into_iter().flat_map(|names| names.split_whitespace())
}

/// By how much this option was found to change the instructions of a mode, and on which source.
pub fn measured(option: &str, mode: &str) -> Option<(&'static str, &'static str)> {
    let found = OPTIONS.measured.get(option)?;
    Some((found.change.get(mode)?, &found.on))
}

/// The value of an option, by its present name, in a configuration that does not have it.
pub fn absent_value(option: &str) -> &'static str {
    if OPTIONS.once_always_on.contains(option) {
        "y"
    } else if removed(option).is_some() {
        "-"
    } else {
        "n"
    }
}

/// What became of an option that no longer exists.
pub fn removed(option: &str) -> Option<&'static str> {
    OPTIONS.removed.get(option).map(String::as_str)
}

/// No unpacked configuration is larger than this.
const MAX_BYTES: u64 = 16 << 20;

/// The options of a configuration file by name: those that matter to pipes, with `n` for "is not set", and all others that
/// are built in. Modules are left out.
pub fn parse(reader: impl Read) -> io::Result<BTreeMap<String, String>> {
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
        if matters(name) || !["n", "m"].contains(&value) {
            options.insert(name.to_owned(), value.to_owned());
        }
    }
    if lines == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a kernel configuration: no line CONFIG_...=..."));
    }
    Ok(options)
}

/// [`parse`] for a file, which may be gzipped.
pub fn read_file(path: &Path) -> io::Result<BTreeMap<String, String>> {
    let bytes = regular::read(path, MAX_BYTES)?;
    if bytes.starts_with(&[0x1f, 0x8b]) { parse(GzDecoder::new(&bytes[..])) } else { parse(&bytes[..]) }
}

/// The running kernel's options, as [`parse`] gives them, and the file they were read from. If there is no such file: no options,
/// and the reason.
pub fn running(release: &str) -> (BTreeMap<String, String>, String) {
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
        let options: Options = toml::from_str(include_str!("options.toml")).unwrap();
        assert!(options.renamed.iter().all(|(former, present)| matters(former) && matters(present)));
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
