//! `pipeprof kernel build`, on a tree that has little more than a Makefile: what is built, when, and what errors say.

use crate::common::pipeprof;
use std::path::{Path, PathBuf};

/// What a guest needs, and an option that the tree does not accept.
const CONFIG: &str = "CONFIG_SERIAL_8250_CONSOLE=y\nCONFIG_BLK_DEV_INITRD=y\nCONFIG_BINFMT_ELF=y\nCONFIG_KALLSYMS=y\n\
    CONFIG_PROC_FS=y\nCONFIG_DEVTMPFS=y\nCONFIG_NUMA=y\n";

/// Compiles one file, and makes an image whose header has a release.
const MAKEFILE: &str = r#"VERSION = 9
PATCHLEVEL = 8
SUBLEVEL = 7
EXTRAVERSION =

olddefconfig:
	@grep -v '^CONFIG_REFUSED=' $(O)/.config > $(O)/new && mv $(O)/new $(O)/.config

bzImage:
	@echo '  CC      fs/pipe.o'
	@$(CC) -c -o $(O)/pipe.o fs/pipe.c
	@mkdir -p $(O)/arch/x86/boot
	@cp image $(O)/arch/x86/boot/bzImage
	@printf '9.8.7%s\0' '$(LOCALVERSION)' | dd of=$(O)/arch/x86/boot/bzImage bs=1 seek=768 conv=notrunc status=none
"#;

struct Builds {
    folder: tempfile::TempDir,
}

impl Builds {
    fn new() -> Self {
        let builds = Self { folder: tempfile::tempdir().unwrap() };
        let tree = builds.tree();
        std::fs::create_dir_all(tree.join("fs")).unwrap();
        std::fs::write(tree.join("Makefile"), MAKEFILE).unwrap();
        std::fs::write(tree.join("fs/pipe.c"), "int pipe_write(void) { return 0; }\n").unwrap();
        // boot.rst: one setup sector, the magic words, and the release at 0x300.
        let mut image = vec![0_u8; 0x400];
        image[0x1f1] = 1;
        image[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        std::fs::write(tree.join("image"), image).unwrap();
        std::fs::write(builds.config(), CONFIG).unwrap();
        builds
    }

    fn tree(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("config")
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// Run `pipeprof kernel WORDS`: whether it succeeded, its output, its errors.
    fn kernel(&self, words: &[&str]) -> (bool, String, String) {
        let output = pipeprof(&["kernel"]).args(words).env("PIPEPROF_CACHE", self.cache()).output().expect("pipeprof");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    }

    fn build(&self, source: &Path, words: &[&str]) -> (bool, String, String) {
        let (source, config) = (source.display().to_string(), self.config().display().to_string());
        self.kernel(&[&["build", source.as_str(), "--config", config.as_str()], words].concat())
    }
}

#[test]
fn a_kernel_is_built_once_and_named() {
    let builds = Builds::new();
    let (done, first, said) = builds.build(&builds.tree(), &["--name", "mine"]);
    assert!(done, "{said}");
    assert!(first.starts_with("9.8.7-build-") && first.trim_end().ends_with("mine"), "{first}");
    assert!(said.contains("1 object"), "{said}");
    // The same again is not built.
    let (done, again, said) = builds.build(&builds.tree(), &[]);
    assert!(done && again == first && said.contains("already built"), "{again}{said}");
    // Another option, another source: other kernels.
    let (done, other, said) = builds.build(&builds.tree(), &["--set", "NUMA=n"]);
    assert!(done && other != first, "{other}{said}");
    assert!(said.contains("NUMA y -> n"), "{said}");
    std::fs::write(builds.tree().join("fs/pipe.c"), "int pipe_read(void) { return 0; }\n").unwrap();
    let (done, changed, said) = builds.build(&builds.tree(), &["--name", "mine"]);
    assert!(done && changed != first, "{changed}{said}");
    // The name has gone to the newest. A series does not mean kernels that were built.
    let (_, list, _) = builds.kernel(&["list"]);
    assert_eq!((list.lines().count(), list.matches("mine").count()), (3, 1), "{list}");
    let (done, _, said) = builds.kernel(&["remove", "9.8"]);
    assert!(!done && said.contains("not in the cache"), "{said}");
    let (done, removed, said) = builds.kernel(&["remove", "mine"]);
    assert!(done && removed.contains("9.8.7-build-"), "{removed}{said}");
    // Nothing was written into the tree.
    let mut names: Vec<_> =
        std::fs::read_dir(builds.tree()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    assert_eq!(names, ["Makefile", "fs", "image"]);
}

#[test]
fn errors_of_builds_name_their_cause() {
    let builds = Builds::new();
    let why = |source: &Path, words: &[&str]| {
        let (done, _, said) = builds.build(source, words);
        assert!(!done, "{said}");
        said
    };
    let tree = builds.tree();
    let said = why(&tree, &["--set", "REFUSED=y"]);
    assert!(said.contains("--set REFUSED=y: the source made it REFUSED=n"), "{said}");
    let said = why(&tree, &["--cc", "gcc-99"]);
    assert!(said.contains("--cc gcc-99: this machine does not have it"), "{said}");
    let said = why(&tree, &["--name", "6.12"]);
    assert!(said.contains("--name '6.12'"), "{said}");
    std::fs::write(tree.join("fs/pipe.c"), "int a = b;\nint c = d;\n").unwrap();
    let said = why(&tree, &[]);
    let line = said.lines().last().unwrap_or_default();
    assert!(line.contains("fs/pipe.c:1:9: error: 'b' undeclared") && line.contains("logs/"), "{said}");
    assert!(!line.contains("'d'"), "{said}");
    std::fs::write(tree.join(".config"), "").unwrap();
    let said = why(&tree, &[]);
    assert!(said.contains("mrproper"), "{said}");
    std::fs::write(builds.config(), "CONFIG_NUMA=y\n").unwrap();
    std::fs::remove_file(tree.join(".config")).unwrap();
    let said = why(&tree, &[]);
    assert!(said.contains("does not have SERIAL_8250_CONSOLE"), "{said}");
    let said = why(&builds.folder.path().join("nowhere"), &[]);
    assert!(said.contains("neither a kernel tree"), "{said}");
}

#[test]
fn a_tarball_is_built_as_its_tree() {
    let builds = Builds::new();
    let tarball = builds.folder.path().join("linux.tar");
    let mut tar = std::process::Command::new("tar");
    let status = tar.arg("-C").arg(builds.folder.path()).arg("-cf").arg(&tarball).arg("tree").status().expect("tar");
    assert!(status.success());
    let (done, built, said) = builds.build(&tarball, &["--jobs", "1"]);
    assert!(done && built.starts_with("9.8.7-build-"), "{built}{said}");
}
