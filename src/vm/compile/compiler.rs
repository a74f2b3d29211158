//! The compiler of a build: one of this machine, or of another Debian in a folder.

use super::folders::BuildFolders;
use crate::arch::Processor;
use crate::util::find_program::find_program;
use crate::util::{cancel, sha256};
use crate::vm::fetch;
use anyhow::{Context as _, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

/// A compiler as the user names it: `gcc-14`, `debian-sid:gcc-16`, or `aarch64-linux-gnu-gcc-14` for another processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilerName {
    /// The Debian suite that it is taken from; `None` for this machine's.
    pub(crate) suite: Option<String>,
    /// Without the processor's prefix.
    pub(crate) program: String,
    /// What it compiles for.
    pub(crate) target: Processor,
}

impl CompilerName {
    /// The same compiler for another processor.
    pub fn building_for(self, target: Processor) -> Self {
        Self { target, ..self }
    }

    /// What it compiles for.
    pub fn target(&self) -> Processor {
        self.target
    }

    /// What programs for the processor begin with, such as `aarch64-linux-gnu-`; nothing for this machine's.
    fn prefix(&self) -> String {
        if self.target == Processor::HERE { String::new() } else { format!("{}-linux-gnu-", self.target.name()) }
    }

    /// The program that is started. clang is one for all processors.
    pub(super) fn command(&self) -> String {
        if self.is_gcc() { format!("{}{}", self.prefix(), self.program) } else { self.program.clone() }
    }

    fn is_gcc(&self) -> bool {
        self.program.starts_with("gcc")
    }

    /// The packages of Debian that it needs.
    fn packages(&self) -> String {
        let processor = self.target.name().replace('_', "-");
        match (self.target == Processor::HERE, self.is_gcc()) {
            (true, _) => self.program.clone(),
            (false, true) => format!("{}-{processor}-linux-gnu", self.program),
            (false, false) => format!("{},binutils-{processor}-linux-gnu", self.program),
        }
    }
}

impl FromStr for CompilerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (suite, program) = match text.split_once(':') {
            None => (None, text),
            Some((from, program)) => {
                let suite = from.strip_prefix("debian-").filter(|suite| fetch::RELEASES.contains(suite));
                let suite = suite.ok_or_else(|| {
                    format!("unknown source of compilers '{from}': give debian-SUITE, such as debian-sid:gcc-16")
                })?;
                (Some(suite.to_owned()), program)
            }
        };
        let of_target = |target: &Processor| program.strip_prefix(&format!("{}-linux-gnu-", target.name()));
        let named = Processor::ALL.into_iter().find_map(|target| Some((target, of_target(&target)?)));
        let (target, program) = named.unwrap_or((Processor::HERE, program));
        let (base, version) = program.split_once('-').unwrap_or((program, "0"));
        let is_known = ["gcc", "clang"].contains(&base);
        if !is_known || version.is_empty() || !version.chars().all(|c| c.is_ascii_digit() || c == '.') {
            return Err(format!("unknown compiler '{program}': give gcc or clang with its version, such as gcc-14"));
        }
        Ok(Self { suite, program: program.to_owned(), target })
    }
}

impl std::fmt::Display for CompilerName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let program = format!("{}{}", self.prefix(), self.program);
        match &self.suite {
            Some(suite) => write!(f, "debian-{suite}:{program}"),
            None => f.write_str(&program),
        }
    }
}

/// A compiler that is there, with the programs that a kernel's build needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Toolchain {
    pub name: CompilerName,
    /// The first line of `--version`.
    pub version: String,
    /// The folder of the other Debian.
    root: Option<PathBuf>,
    ccache: Option<PathBuf>,
}

/// Programs that a kernel's build starts, their Debian packages, and the part of the tree that needs them.
const PROGRAMS: [(&str, &str, &str); 6] = [
    ("make", "make", "Makefile"),
    ("flex", "flex", "scripts/kconfig"),
    ("bison", "bison", "scripts/kconfig"),
    ("bc", "bc", "kernel/time/timeconst.bc"),
    ("perl", "perl", "lib/build_OID_registry"),
    ("zstd", "zstd", "lib/zstd"),
];

/// Headers that the build's own programs include, likewise.
const HEADERS: [(&str, &str, &str); 2] =
    [("gelf.h", "libelf-dev", "tools/objtool"), ("openssl/ssl.h", "libssl-dev", "certs")];

/// What the folder of another Debian contains besides the compiler.
const PACKAGES: &str =
    "make,flex,bison,bc,perl,zstd,xz-utils,libelf-dev,libssl-dev,libc6-dev,kmod,cpio,ccache,python3-minimal";

/// Mounts what the build needs into the folder $1 and runs the rest there: source $2, output $3, ccache $4. It runs in
/// a mount namespace of its own, so that nothing stays mounted.
const INSIDE: &str = r#"set -e
root=$1
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$2" "$root/build/source"
mount --bind "$3" "$root/build/output"
mount --bind "$4" "$root/build/ccache"
shift 4
exec chroot "$root" "$@""#;

impl Toolchain {
    /// Whether nothing must be made before it can be used. An error if it would be this machine's, and is missing.
    pub(crate) fn is_there(name: &CompilerName, folders: &BuildFolders) -> Result<bool> {
        match &name.suite {
            None => ensure_compiler(name).map(|()| true),
            Some(suite) => Ok(folders.has_debian(&format!("{suite}-{}{}", name.prefix(), name.program))),
        }
    }

    /// Find the compiler, or make a folder with the Debian that has it.
    pub(crate) fn open(name: &CompilerName, folders: &BuildFolders, say: &dyn Fn(&str)) -> Result<Self> {
        let (root, ccache) = match &name.suite {
            None => {
                ensure_compiler(name)?;
                (None, find_program("ccache").map(|_| folders.ccache()))
            }
            Some(suite) => {
                let folder = format!("{suite}-{}{}", name.prefix(), name.program);
                let root = folders.debian(&folder, |into| make_debian(suite, name, into, say))?;
                (Some(root), Some(folders.ccache()))
            }
        };
        let mut toolchain = Self { name: name.clone(), version: String::new(), root, ccache };
        let mut command = match &toolchain.root {
            None => Command::new(name.command()),
            Some(root) => {
                let mut command = namespace();
                command.arg("chroot").arg(root).arg(name.command());
                command
            }
        };
        let output = command.arg("--version").env("LC_ALL", "C").stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("--cc {name}: cannot start it"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let version = said.lines().next().unwrap_or_default().trim().to_owned();
        ensure!(output.status.success() && !version.is_empty(), "--cc {name}: it does not state its version");
        toolchain.version = version;
        Ok(toolchain)
    }

    /// Name all packages that this machine does not have and the tree at `source` needs.
    pub(crate) fn check(&self, source: &Path) -> Result<()> {
        if self.root.is_some() {
            return Ok(());
        }
        let include = [Path::new("/usr/include"), Path::new("/usr/include/x86_64-linux-gnu")];
        let has_header = |header: &str| include.iter().any(|folder| folder.join(header).is_file());
        let programs = PROGRAMS.iter().filter(|(program, ..)| find_program(program).is_none());
        let headers = HEADERS.iter().filter(|(header, ..)| !has_header(header));
        let needed = programs.chain(headers).filter(|(.., part)| source.join(part).exists());
        let packages: Vec<&str> = needed.map(|(_, package, _)| *package).collect();
        ensure!(
            packages.is_empty(),
            "a kernel's build needs programs that are missing: apt-get install {}",
            packages.join(" ")
        );
        Ok(())
    }

    /// What tells this compiler from others. The programs around it, such as the assembler, come with its Debian.
    pub(crate) fn digest(&self) -> String {
        let mut parts = vec![self.name.suite.as_deref().unwrap_or("this machine"), &self.version];
        // clang states the same version whatever it compiles for.
        parts.extend(Some(self.name.target.name()).filter(|_| self.name.target != Processor::X86_64));
        sha256::of_parts(parts)
    }

    pub(crate) fn uses_ccache(&self) -> bool {
        self.ccache.is_some()
    }

    /// `make` in the tree `source`, with objects in `output`.
    pub(crate) fn make(&self, source: &Path, output: &Path) -> Command {
        let mut command = match &self.root {
            None => {
                let mut command = only_built_of_its_parts(Command::new("make"));
                command.arg("-C").arg(source).arg(format!("O={}", output.display()));
                if let Some(ccache) = &self.ccache {
                    // Objects are the same whatever the folders of the source and of the output are.
                    command.env("CCACHE_DIR", ccache).env("CCACHE_NOHASHDIR", "1");
                    if let Some(parent) = output.parent() {
                        command.env("CCACHE_BASEDIR", parent);
                    }
                }
                command
            }
            Some(root) => {
                let mut command = only_built_of_its_parts(namespace());
                command.args(["sh", "-c", INSIDE, "sh"]).arg(root).arg(source).arg(output);
                command.arg(self.ccache.as_deref().unwrap_or(output));
                command.args(["make", "-C", "/build/source", "O=/build/output"]);
                command.env("CCACHE_DIR", "/build/ccache").env("HOME", "/tmp");
                command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
                command
            }
        };
        let program = self.name.command();
        let compile = if self.uses_ccache() { format!("CC=ccache {program}") } else { format!("CC={program}") };
        let is_own = self.name.target == Processor::HERE;
        // A compiler for another processor may be the only one of its version.
        command.arg(compile).arg(format!("HOSTCC={}", if is_own { &program } else { "gcc" }));
        if !is_own {
            command
                .arg(format!("ARCH={}", self.name.target.linux()))
                .arg(format!("CROSS_COMPILE={}", self.name.prefix()));
        }
        // The kernel's build would compress with `-22 --ultra`, 13 s at the end of each build: these become the shell's
        // arguments. What is executed after the boot is the same.
        command.arg("ZSTD=sh -c 'exec zstd -q -3'");
        // What ccache has read to compare it is also what is compiled: a third less time (docs/performance.md).
        command.env("CCACHE_NOCPP2", "1");
        // Equal sources make equal images.
        command.env("KBUILD_BUILD_TIMESTAMP", "@0").env("KBUILD_BUILD_USER", "pipeprof");
        command.env("KBUILD_BUILD_HOST", "pipeprof").env("LC_ALL", "C").stdin(Stdio::null());
        command
    }
}

/// Without variables such as KCFLAGS, which change what is built and are in no digest.
fn only_built_of_its_parts(mut command: Command) -> Command {
    command.env_clear();
    for name in ["PATH", "HOME", "TMPDIR"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

/// `unshare` with a mount namespace; for a user who is not root, also with a user namespace.
fn namespace() -> Command {
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command
}

/// The first line of `--version` of a program of this machine.
pub(super) fn states_version(program: &str) -> Option<String> {
    find_program(program)?;
    let output = Command::new(program).arg("--version").env("LC_ALL", "C").stdin(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned())
}

fn ensure_compiler(compiler: &CompilerName) -> Result<()> {
    let linker = format!("{}ld", compiler.prefix());
    ensure!(
        [&compiler.command(), &linker].into_iter().all(|program| find_program(program).is_some()),
        "--cc {compiler}: this machine does not have it: install it (package {}), or take it from another Debian: \
         --cc debian-trixie:gcc-14, --cc debian-sid:gcc-16",
        compiler.packages().replace(',', " and ")
    );
    Ok(())
}

/// Make a folder with the Debian `suite` and the compiler.
fn make_debian(suite: &str, name: &CompilerName, into: &Path, say: &dyn Fn(&str)) -> Result<()> {
    if find_program("mmdebstrap").is_none() {
        bail!("--cc {name} needs mmdebstrap: apt-get install mmdebstrap");
    }
    say(&format!("making a folder with Debian {suite} and {}{}, 0.5 GB", name.prefix(), name.program));
    let own = if name.target == Processor::HERE { "" } else { ",gcc" };
    let output = Command::new("mmdebstrap")
        .args(["--quiet", "--variant=essential"])
        // sid's and older releases' files may have expired.
        .arg("--aptopt=Acquire::Check-Valid-Until \"false\"")
        .arg("--aptopt=APT::Install-Recommends \"false\"")
        .args(["--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*"])
        .arg(format!("--include={PACKAGES},{}{own}", name.packages()))
        // For a user who is not root, the folder belongs to another user of the namespace.
        .arg(r#"--customize-hook=mkdir -p "$1/build/source" "$1/build/output" "$1/build/ccache""#)
        .arg(suite)
        .arg(into)
        .arg(fetch::source_line(suite)?)
        .stdin(Stdio::null())
        .output()
        .context("cannot start mmdebstrap")?;
    cancel::check()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let line = said.lines().find(|line| line.starts_with("E: ")).or(said.lines().last());
        bail!("--cc {name}: mmdebstrap: {}", line.unwrap_or("failed without a message"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_are_named_with_their_debian() {
        let parse = |text: &str| text.parse::<CompilerName>();
        let own = CompilerName { suite: None, program: "gcc-14".to_owned(), target: Processor::HERE };
        assert_eq!(parse("gcc-14"), Ok(own.clone()));
        let sid = parse("debian-sid:gcc-16").unwrap();
        assert_eq!((sid.suite.as_deref(), sid.program.as_str()), (Some("sid"), "gcc-16"));
        assert_eq!(sid.to_string(), "debian-sid:gcc-16");
        let other = if Processor::HERE == Processor::Aarch64 { Processor::X86_64 } else { Processor::Aarch64 };
        let name = format!("debian-trixie:{}-linux-gnu-gcc-14", other.name());
        let cross = parse(&name).unwrap();
        assert_eq!((cross.target, cross.program.as_str(), cross.to_string()), (other, "gcc-14", name));
        assert_eq!(cross.packages(), format!("gcc-14-{}-linux-gnu", other.name().replace('_', "-")));
        assert_eq!(cross.command(), format!("{}-linux-gnu-gcc-14", other.name()));
        // The prefix of this machine's own is left out.
        assert_eq!(parse(&format!("{}-linux-gnu-gcc-14", Processor::HERE.name())), Ok(own.clone()));
        let clang = parse("clang-19").unwrap().building_for(other);
        assert_eq!((clang.command(), parse(&clang.to_string())), ("clang-19".to_owned(), Ok(clang)));
        for wrong in ["tcc", "gcc-", "gcc 14", "sid:gcc-16", "debian-x:gcc-16", "debian-sid:", "gcc-14;x", ""] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
