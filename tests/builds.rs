//! `pipeprof kernel build`, on a tree that has little more than a Makefile: what is built, when, and what errors say.

use crate::common::{self, pipeprof};
use std::os::unix::fs::{PermissionsExt as _, symlink};
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

    /// Write a file of the tree after the last build has ended, by the clock of the file system.
    fn edit(&self, name: &str, text: &str) {
        let time = |path: &Path| std::fs::metadata(path).and_then(|found| found.modified()).ok();
        let (path, ended) = (self.tree().join(name), time(&self.cache().join("build/output.key")));
        wait_until("the clock advances", || {
            std::fs::write(&path, text).unwrap();
            time(&path) > ended
        });
    }

    /// Begin to build the tree.
    fn start(&self) -> std::process::Child {
        let mut command = pipeprof(&["kernel", "build"]);
        command.arg(self.tree()).arg("--config").arg(self.config()).args(["--jobs", "1"]);
        command.env("PIPEPROF_CACHE", self.cache()).stderr(std::process::Stdio::null()).spawn().unwrap()
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
    // An equal build has one name. A message says that the name has moved.
    let release = first.split_whitespace().next().unwrap();
    let (done, _, said) = builds.build(&builds.tree(), &["--name", "other"]);
    assert!(done && said.contains(&format!("{release} was named mine: this is the same build")), "{said}");
    let (done, again, said) = builds.build(&builds.tree(), &["--name", "mine"]);
    assert!(done && again == first && said.contains(" was named other: "), "{said}");
    let (done, again, said) = builds.build(&builds.tree(), &["--name", "mine"]);
    assert!(done && again == first && !said.contains(" was named "), "{said}");
    // Another option, another source: other kernels.
    let (done, other, said) = builds.build(&builds.tree(), &["--set", "NUMA=n"]);
    assert!(done && other != first, "{other}{said}");
    assert!(said.contains("NUMA y -> n"), "{said}");
    std::fs::write(builds.tree().join("fs/pipe.c"), "int pipe_read(void) { return 0; }\n").unwrap();
    let (done, changed, said) = builds.build(&builds.tree(), &["--name", "mine"]);
    assert!(done && changed != first, "{changed}{said}");
    assert!(said.contains(&format!("mine was {release}, which has no other name, and now is 9.8.7-build-")), "{said}");
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

/// As [`MAKEFILE`]: an image for arm64, if make is told so. Its banner has the release (Documentation/arch/arm64/booting.rst).
const ARM64: &str = r#"
Image:
	@test "$(ARCH)" = arm64 && test "$(HOSTCC)" = gcc
	@echo '  CC      fs/pipe.o'
	@$(CC) -c -o $(O)/pipe.o fs/pipe.c
	@$(CROSS_COMPILE)objdump -f $(O)/pipe.o | grep -q 'architecture: aarch64'
	@mkdir -p $(O)/arch/arm64/boot
	@(head -c 56 /dev/zero; printf 'ARM\144'; head -c 4036 /dev/zero; printf 'Linux version 9.8.7%s \0' '$(LOCALVERSION)') \
		>$(O)/arch/arm64/boot/Image
"#;

#[test]
#[ignore = "needs gcc-aarch64-linux-gnu, as make build-arm64 does: make test"]
fn a_kernel_for_another_processor_is_built_with_its_compiler() {
    let builds = Builds::new();
    std::fs::write(builds.tree().join("Makefile"), format!("{MAKEFILE}{ARM64}")).unwrap();
    let config = CONFIG.replace("SERIAL_8250_CONSOLE", "SERIAL_AMBA_PL011_CONSOLE");
    std::fs::write(builds.config(), format!("CONFIG_ARM64=y\n{config}")).unwrap();
    let (done, _, said) = builds.build(&builds.tree(), &[]);
    assert!(!done && said.contains("it is of a kernel for arm64: add `--arch arm64`"), "{said}");
    let (done, _, said) = builds.build(&builds.tree(), &["--arch", "mips"]);
    assert!(!done && said.contains("give amd64 or arm64"), "{said}");
    let (done, first, said) = builds.build(&builds.tree(), &["--arch", "arm64"]);
    assert!(done && first.contains("arm64"), "{first}{said}");
    // The compiler's name says the same, and its image is the same build.
    let (done, again, said) = builds.build(&builds.tree(), &["--cc", "aarch64-linux-gnu-gcc"]);
    assert!(done && again == first && said.contains("already built"), "{again}{said}");
    let needed = |words: &[&str]| builds.kernel(&[&["config"], words].concat()).1;
    assert!(needed(&["--arch", "arm64"]).contains("CONFIG_PCI_HOST_GENERIC=y"));
    assert!(!needed(&["--arch", "amd64"]).contains("CONFIG_PCI_HOST_GENERIC=y"));
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

/// As [`MAKEFILE`] in small: an object for each file, compiled if the file is newer, and one of a file that includes another.
const OBJECTS: &str = r#"
$(O)/%.o: fs/%.c
	@echo '  CC      fs/$*.o'
	@$(CC) -c -o $@ $<

$(O)/pipe.o: fs/pipe.h
"#;

/// Let the image of `tree` need these objects, made by `rules`, and add their files.
fn objects_of(tree: &Path, objects: &[&str], rules: &str) {
    let needed: String = objects.iter().map(|name| format!(" $(O)/{name}.o")).collect();
    let makefile = MAKEFILE.replace("bzImage:", &format!("bzImage:{needed}"));
    let makefile = makefile.replace("\t@echo '  CC      fs/pipe.o'\n\t@$(CC) -c -o $(O)/pipe.o fs/pipe.c\n", "");
    std::fs::write(tree.join("Makefile"), format!("{makefile}{rules}")).unwrap();
    std::fs::write(tree.join("fs/pipe.h"), "").unwrap();
    objects.iter().for_each(|name| std::fs::write(tree.join(format!("fs/{name}.c")), "").unwrap());
}

#[test]
fn an_edit_compiles_only_what_it_changed_whatever_happened_between() {
    let builds = Builds::new();
    let tree = builds.tree();
    objects_of(&tree, &["pipe", "read", "last"], OBJECTS);
    std::fs::write(tree.join("fs/pipe.c"), "#include \"pipe.h\"\n").unwrap();
    let objects = |number: usize| {
        let (done, built, said) = builds.build(&tree, &["--jobs", "1"]);
        assert!(done && said.contains(&format!(" s, {number} object")), "{built}{said}");
    };
    objects(3);
    builds.edit("fs/pipe.h", "int a;\n");
    objects(1);
    // An error of the compiler, in the second of two files, and its correction.
    builds.edit("fs/pipe.h", "int b;\n");
    builds.edit("fs/last.c", "int c = d;\n");
    let (done, _, said) = builds.build(&tree, &["--jobs", "1"]);
    assert!(!done && said.contains("'d' undeclared"), "{said}");
    builds.edit("fs/last.c", "int c;\n");
    objects(1);
    // A configuration that the source does not accept.
    builds.edit("fs/read.c", "int e;\n");
    let (done, _, said) = builds.build(&tree, &["--set", "REFUSED=y"]);
    assert!(!done && said.contains("--set REFUSED=y"), "{said}");
    objects(1);
    // make does not see what comes with an old time, so nothing is used again.
    builds.edit("fs/read.c", "int f;\n");
    let read = std::fs::File::options().write(true).open(tree.join("fs/read.c")).unwrap();
    read.set_modified(std::time::UNIX_EPOCH).unwrap();
    objects(3);
}

#[test]
fn an_interruption_keeps_whole_objects() {
    let builds = Builds::new();
    let tree = builds.tree();
    // The second object is begun, and then waits for ever.
    let waiting = OBJECTS.replace("\t@$(CC)", "\t@if [ $* = last ]; then echo half >$@; cat fifo; fi\n\t@$(CC)");
    objects_of(&tree, &["pipe", "last"], &waiting);
    fifo(&tree.join("fifo"));
    let mut build = builds.start();
    let output = builds.cache().join("build/output");
    wait_until("the second object is begun", || output.join("last.o").exists());
    rustix::process::kill_process(rustix::process::Pid::from_child(&build), rustix::process::Signal::INT).unwrap();
    assert_eq!(build.wait().unwrap().code(), Some(128 + 2));
    assert!(output.join("pipe.o").exists() && !output.join("last.o").exists());
    builds.edit("fs/last.c", "int last;\n");
    let writer = std::thread::spawn({
        let fifo = tree.join("fifo");
        move || std::fs::File::options().write(true).open(fifo).map(drop)
    });
    let (done, built, said) = builds.build(&tree, &["--jobs", "1"]);
    assert!(done && said.contains(", 1 object\n"), "{built}{said}");
    writer.join().unwrap().unwrap();
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

#[test]
fn a_change_behind_a_link_is_built() {
    let builds = Builds::new();
    let at = |name: &str| builds.folder.path().join(name);
    // The folder of the source is elsewhere, and its file in yet another place.
    std::fs::create_dir(at("elsewhere")).unwrap();
    std::fs::rename(builds.tree().join("fs"), at("elsewhere/fs")).unwrap();
    std::fs::rename(at("elsewhere/fs/pipe.c"), at("pipe.c")).unwrap();
    symlink("../../pipe.c", at("elsewhere/fs/pipe.c")).unwrap();
    symlink("../elsewhere/fs", builds.tree().join("fs")).unwrap();
    symlink("../../tree", at("elsewhere/round")).unwrap();
    symlink(".", builds.tree().join("round")).unwrap();
    let (done, first, said) = builds.build(&builds.tree(), &[]);
    assert!(done, "{said}");
    let (done, again, said) = builds.build(&builds.tree(), &[]);
    assert!(done && again == first && said.contains("already built"), "{again}{said}");
    std::fs::write(at("pipe.c"), "int pipe_read(void) { return 0; }\n").unwrap();
    let (done, changed, said) = builds.build(&builds.tree(), &[]);
    assert!(done && changed != first && said.contains("1 object"), "{changed}{said}");
}

#[test]
fn a_fifo_as_makefile_is_refused_and_a_make_that_hangs_is_ended() {
    let builds = Builds::new();
    let makefile = builds.tree().join("Makefile");
    std::fs::remove_file(&makefile).unwrap();
    fifo(&makefile);
    let (done, _, said) = builds.build(&builds.tree(), &[]);
    assert!(!done && said.contains("Makefile: this is a FIFO; give a regular file"), "{said}");
    std::fs::remove_file(&makefile).unwrap();
    std::fs::write(&makefile, MAKEFILE.replace("@grep", "@cat fifo; grep")).unwrap();
    fifo(&builds.tree().join("fifo"));
    let mut build = builds.start();
    let logs = builds.cache().join("build/logs");
    wait_until("make starts", || std::fs::read_dir(&logs).is_ok_and(|mut logs| logs.next().is_some()));
    rustix::process::kill_process(rustix::process::Pid::from_child(&build), rustix::process::Signal::TERM).unwrap();
    let mut status = None;
    wait_until("SIGTERM ends it", || {
        status = build.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(128 + 15));
    // The lock is free.
    std::fs::write(&makefile, MAKEFILE).unwrap();
    let (done, _, said) = builds.build(&builds.tree(), &[]);
    assert!(done, "{said}");
}

#[test]
fn a_tarball_has_any_name_and_nothing_special() {
    let builds = Builds::new();
    let (folder, config) = (builds.folder.path(), builds.config().display().to_string());
    let pack = |name: &str| {
        let mut tar = std::process::Command::new("tar");
        tar.args(["--force-local", "-czf", name, "tree"]).current_dir(folder);
        assert!(tar.status().expect("tar").success());
    };
    let build = |name: &str| {
        let mut command = pipeprof(&["kernel", "build", name, "--config", &config]);
        let output = command.current_dir(folder).env("PIPEPROF_CACHE", builds.cache()).output().expect("pipeprof");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    pack("host:x.tar");
    let (done, said) = build("host:x.tar");
    assert!(done, "{said}");
    let special = builds.tree().join("fs/special");
    fifo(&special);
    pack("fifo.tar");
    let (done, said) = build("fifo.tar");
    assert!(!done && said.contains("tree/fs/special is a FIFO"), "{said}");
    std::fs::remove_file(&special).unwrap();
    symlink(folder.join("config"), &special).unwrap();
    pack("link.tar");
    let (done, said) = build("link.tar");
    assert!(!done && said.contains("its link fs/special leads to /"), "{said}");
}

#[test]
fn a_cache_is_closed_whatever_the_umask_is() {
    let builds = Builds::new();
    let image = builds.folder.path().join("image");
    // With the release where the build would write it.
    let mut bytes = std::fs::read(builds.tree().join("image")).unwrap();
    bytes[0x300..0x306].copy_from_slice(b"9.8.7\0");
    std::fs::write(&image, bytes).unwrap();
    std::fs::set_permissions(&image, std::fs::Permissions::from_mode(0o6777)).unwrap();
    for words in [["add", image.to_str().unwrap()].as_slice(), &["list"]] {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "umask 0; exec \"$@\"", "sh"]).arg(env!("CARGO_BIN_EXE_pipeprof")).arg("kernel");
        let output = command.args(words).env("PIPEPROF_CACHE", builds.cache()).output().expect("sh");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let mut places = vec![builds.cache()];
    while let Some(place) = places.pop() {
        let mode = std::fs::metadata(&place).unwrap().permissions().mode();
        assert_eq!(mode & 0o6002, 0, "{}: {mode:o}", place.display());
        if place.is_dir() {
            places.extend(std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed().as_secs() < 300, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn fifo(path: &Path) {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).expect("a FIFO");
}

/// The image of a kernel in the user's cache.
fn image_of(series: &str) -> PathBuf {
    common::kernel(series).image
}

/// A tree whose image is one of two kernels of distributions: the newer one, if an option or the file `newer` says so.
fn tree_of_two_kernels(builds: &Builds) {
    let [older, newer] = ["6.1", "6.12"].map(|series| image_of(series).display().to_string());
    let makefile = format!(
        "VERSION = 9\nPATCHLEVEL = 8\nSUBLEVEL = 7\nEXTRAVERSION =\n\nolddefconfig:\n\
         \t@if ! grep -q PLANTED_5=y $(O)/.config; then sed -i '/^CONFIG_NEWER=y/d' $(O)/.config; fi\n\nbzImage:\n\
         \t@echo '  CC      fs/pipe.o'\n\t@$(CC) -c -o $(O)/pipe.o fs/pipe.c\n\t@mkdir -p $(O)/arch/x86/boot\n\
         \t@if grep -q NEWER=y $(O)/.config || [ -e newer ]; then image={newer}; else image={older}; fi; \\\n\
         \t\tcp $$image $(O)/arch/x86/boot/bzImage\n"
    );
    std::fs::write(builds.tree().join("Makefile"), makefile).unwrap();
    // The boots of other tests, which have the same kernels.
    let users = image_of("6.1").ancestors().nth(3).expect("a cache").to_owned();
    std::fs::create_dir_all(builds.cache()).unwrap();
    for name in ["snapshots", "symbols"] {
        std::os::unix::fs::symlink(users.join(name), builds.cache().join(name)).unwrap();
    }
}

/// Small windows of the difference between the two kernels.
const SMALL: [&str; 3] = ["--run-flags", "--buffer-size 64K --calls 40 --warmup 1M", "--json"];

#[test]
#[ignore = "boots guests: make test"]
fn the_option_and_the_commits_that_change_the_counts_are_found() {
    let builds = Builds::new();
    tree_of_two_kernels(&builds);
    let tree = builds.tree();
    let git = |script: &str| {
        let script = format!("set -e; export GIT_CONFIG_GLOBAL=/dev/null\n{script}");
        let output = std::process::Command::new("bash").args(["-c", &script]).current_dir(&tree).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    // The newer kernel comes, does not build for two commits, goes, and comes again.
    git("git init -q -b main .; git config user.name A; git config user.email a@b
         c() { git add -A; git commit -q -m \"$1\"; git tag \"$1\"; }
         c base; for n in 1 2 3; do echo $n >note; c n$n; done
         touch newer; c first; echo 4 >note; c n4
         echo x >>fs/pipe.c; c broken; echo 5 >note; c n5; sed -i '$d' fs/pipe.c; c fixed
         git rm -q newer; c gone; echo 6 >note; c n6; touch newer; c again; echo 7 >note; c n7");
    let search = |command: &[&str]| {
        let output = pipeprof(command).args(SMALL).env("PIPEPROF_CACHE", builds.cache()).output().expect("pipeprof");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")
    };
    let (place, config) = (tree.display().to_string(), builds.config().display().to_string());
    // The second search reads the counts of the first.
    let counts = builds.folder.path().join("counts").display().to_string();
    let bisect = |more: &[&str]| {
        let given = ["bisect", "--tree", &place, "--config", &config, "--good", "base", "-o", &counts];
        search(&[&given[..], more].concat())
    };
    let found = |result: &serde_json::Value| {
        let found = result["found"].as_array().unwrap().clone();
        found
            .iter()
            .map(|found| found["ids"].as_array().unwrap().len().to_string() + " " + found["ids"][0].as_str().unwrap())
            .collect::<Vec<_>>()
    };
    let one = |tag: &str| format!("1 {}", git(&format!("git rev-parse {tag}")));
    // Between the ends there is one change. With a commit in between, all three are found.
    let result = bisect(&["--bad", "n7", "--probes", "5"]);
    assert_eq!(found(&result), [one("first"), one("gone"), one("again")], "{result:#}");
    let effect = &result["found"][0]["effects"][0];
    assert!(effect["after"].as_f64() > effect["before"].as_f64() && !effect["roles"].as_array().unwrap().is_empty());
    // One role. The commit that changes it touches none of the paths, and no other is blamed for it.
    let path = ["--path", "note"];
    let role = ["--bad", "n4", "--role", "page-alloc", "--smallest", "5%", "--resume"];
    let result = bisect(&[&role[..], &path].concat());
    assert_eq!(found(&result), [one("first")], "{result:#}");
    // Counts of another workload are not used.
    let other = ["bisect", "--tree", &place, "--good", "base", "--bad", "n4", "-o", &counts, "--resume", "--cpus", "2"];
    let refused = pipeprof(&other).args(SMALL).env("PIPEPROF_CACHE", builds.cache()).output().expect("pipeprof");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("differs (cpus, 1)"), "{said}");
    // Guests of another processor need a program for it, which is missed before anything is built.
    let arm = ["bisect", "--tree", &place, "--good", "base", "--bad", "n4", "--arch", "arm64", "--tiny"];
    let refused = pipeprof(&arm).env("PIPEPROF_CACHE", builds.cache()).env("PIPEPROF_AARCH64", "/nowhere").output();
    let refused = refused.expect("pipeprof");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("need pipeprof built for arm64"), "{said}");
    // The user's tree is as it was.
    assert_eq!(git("git status --short; git rev-parse HEAD"), git("git rev-parse n7"));

    let other = builds.folder.path().join("other");
    let options: String = (0..20).map(|n| format!("CONFIG_PLANTED_{n}=y\n")).collect();
    std::fs::write(&other, format!("{CONFIG}{options}CONFIG_NEWER=y\nCONFIG_MODULE=m\n")).unwrap();
    let source = format!("{place}@base");
    let result = search(&["kernel", "options", &config, &other.display().to_string(), "--source", &source]);
    assert_eq!((&result["differing"], &result["modules"]), (&22.into(), &1.into()), "{result:#}");
    let options = result["options"].as_array().unwrap();
    assert_eq!((options.len(), &options[0]["options"][0]), (1, &"NEWER n -> y".into()), "{result:#}");
    let delta =
        |effects: &serde_json::Value| effects[0]["after"].as_f64().unwrap() - effects[0]["before"].as_f64().unwrap();
    assert_eq!(delta(&options[0]["alone"]), delta(&result["total"]));
    assert_eq!(options[0]["follow"], serde_json::json!(["PLANTED_5"]));
    causes_of_two_kernels(&builds, &source, &other);
}

/// The two configurations as kernels: why they differ, and that their source is the same.
fn causes_of_two_kernels(builds: &Builds, source: &str, other: &Path) {
    let folder = builds.folder.path();
    let run = |words: &[&str]| {
        let output =
            pipeprof(words).current_dir(folder).env("PIPEPROF_CACHE", builds.cache()).output().expect("pipeprof");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let other = other.display().to_string();
    // Both images are those of many builds, whose names and releases replace each other in the cache.
    let build = || {
        for (name, config) in [("first", builds.config().display().to_string()), ("second", other.clone())] {
            run(&["kernel", "build", source, "--config", &config, "--name", name]);
        }
    };
    build();
    let columns = ["--kernel", "first,second", "--mode", "write", "--cpus", "1", SMALL[0], SMALL[1]];
    let answer = run(&[&["compare", "--causes=options", "-o", "compared"][..], &columns].concat());
    assert!(answer.contains("Causes: ") && answer.contains(" rebuilt: configuration "), "{answer}");
    assert!(answer.contains("NEWER n -> y") && answer.contains("22 options differ; 1 of them changes"), "{answer}");

    build();
    run(&[&["matrix", "plan"][..], &columns].concat());
    run(&["matrix", "run", "cells.jsonl", "--store", "store"]);
    let answer = run(&["history", "store", "--causes", "-o", "series.html"]);
    let lines: Vec<&str> = answer.lines().filter(|line| line.starts_with("write, 1 CPU")).collect();
    let [whole, alone] = lines[..] else { panic!("{answer}") };
    assert!(
        whole.ends_with("; source alone 0 %), in 1 step") && alone.starts_with("write, 1 CPU, source alone: "),
        "{answer}"
    );
    assert!(alone.ends_with("(0 %), without a step"), "{answer}");
    let page = std::fs::read_to_string(folder.join("series.html")).unwrap();
    assert!(
        page.contains("The kernels as they are, and the source alone")
            && page.contains("the configuration of second and gcc "),
        "{page}"
    );
}
