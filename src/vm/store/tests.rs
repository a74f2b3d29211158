use super::*;
use crate::util::stored_json::HIGHEST;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn a_cache_that_everybody_can_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(refuse_open_cache(&folder.path().join("new")).is_ok());
    for (mode, is_refused) in [(0o755, false), (0o775, false), (0o777, true), (0o1777, true)] {
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        let result = refuse_open_cache(folder.path());
        assert_eq!(result.is_err(), is_refused, "{mode:o}");
        assert!(result.is_ok() || result.unwrap_err().to_string().contains("chmod o-w"));
    }
}

#[test]
fn the_newest_files_and_folders_are_kept() {
    let parent = tempfile::tempdir().unwrap();
    for (name, age) in [("a", 10), ("b", 30), ("c", 20)] {
        let folder = parent.path().join(name);
        fs::create_dir(&folder).unwrap();
        let then = SystemTime::now() - std::time::Duration::from_secs(age);
        File::open(&folder).unwrap().set_modified(then).unwrap();
    }
    fs::write(parent.path().join("d"), "").unwrap();
    keep_newest(parent.path(), 2).unwrap();
    assert!(["a", "d"].iter().all(|name| parent.path().join(name).exists()));
    keep_newest(parent.path(), 0).unwrap();
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn a_name_may_end_in_a_processor() {
    assert_eq!(of_processor("6.12:arm64"), ("6.12", Processor::Aarch64));
    assert_eq!(of_processor("6.12:amd64"), ("6.12", Processor::X86_64));
    assert_eq!(of_processor("6.12"), ("6.12", Processor::HERE));
    assert_eq!(of_processor("a:b"), ("a:b", Processor::HERE));
}

proptest::proptest! {
    #[test]
    fn what_is_written_of_a_kernel_is_read(
        texts in proptest::collection::vec(".*", 9), name in proptest::option::of("[a-z6./]{1,9}"),
        release in "6\\.1[.0-9a-z-]{0,9}", version in proptest::option::of(".{0,3}"), seconds in 0..u64::MAX,
        objects: usize, from_bundle: bool, built: bool,
    ) {
        let text = |at: usize| texts[at].clone();
        let build = BuildRecord {
            name, source: text(0), source_name: text(1), source_digest: text(2), configuration: text(3),
            config_name: Some(text(4)), configuration_digest: text(4), settings: texts.clone(), compiler: text(5),
            compiler_name: text(6), digest: text(7), seconds, objects, from_bundle,
        };
        let entry = CachedKernel {
            processor: Processor::X86_64,
            version: version.map_or_else(|| release.clone(), |more| format!("6.1.2{more}")), origin: text(8),
            build: Some(build).filter(|_| built), folder: PathBuf::new(), release,
        };
        // What is refused when it is read is refused when it is written.
        match entry.text() {
            Ok(text) => {
                proptest::prop_assert_eq!(CachedKernel::parse(text.as_bytes(), &entry.release).unwrap(), entry);
            }
            Err(error) => {
                let counts = built && (seconds >= HIGHEST || objects as u64 >= HIGHEST);
                proptest::prop_assert!(counts || entry.check().is_err(), "{}", error);
            }
        }
    }
}
