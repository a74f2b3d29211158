//! Fetch kernels from the Debian mirror that this machine already uses, with its own apt and a private apt root.
//! Nothing is installed and no host is hard-coded. apt verifies checksums and signatures.

use crate::arch::Processor;
use crate::util::{atomic_file, cancel, progress, regular};
use crate::vm::packages::{self, Package, kernel_paragraphs, parse_packages};
use crate::vm::store::{CachedKernel, KernelCache, lock_file, no_room, of_processor};
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Suites that have, or had, kernels worth comparing. A mirror may not have all of them.
const SUITES: [&str; 11] = [
    "bullseye",
    "bullseye-updates",
    "bullseye-backports",
    "bookworm",
    "bookworm-updates",
    "bookworm-backports",
    "trixie",
    "trixie-updates",
    "trixie-backports",
    "sid",
    "experimental",
];

/// The same suites' security updates, on the security mirror.
const SECURITY_SUITES: [&str; 3] = ["bullseye-security", "bookworm-security", "trixie-security"];

/// Release names that identify a Debian mirror among the machine's sources.
pub(crate) const RELEASES: [&str; 12] = [
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
    "sid",
    "stable",
    "oldstable",
    "oldoldstable",
    "testing",
    "unstable",
    "experimental",
];

/// Debian's signing keys for these suites.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Refresh the index from the mirror when it is older than this.
const INDEX_AGE: Duration = Duration::from_secs(6 * 3600);

/// The longest list of kernels, bytes.
const LONGEST_INDEX: u64 = 256 << 20;

/// The result of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    New(CachedKernel),
    /// The cache already has the newest kernel of the series that the mirror offers.
    Kept(CachedKernel),
    /// The mirror did not deliver a kernel, for this reason; the cache has one of the series.
    Stale(CachedKernel, String),
}

/// The Debian flavour that is smallest and boots fastest.
pub const SMALLEST_FLAVOUR: &str = "cloud-amd64";

/// Flavours of Debian's kernels; for arm64, with 16 KiB pages, too.
pub const FLAVOURS: [&str; 4] = [SMALLEST_FLAVOUR, "amd64", "rt-amd64", "arm64-16k"];

/// The same flavour for a processor: `cloud-arm64`. Flavours that name their processor are left as they are.
fn flavour_of(flavour: &str, processor: Processor) -> String {
    let end = Processor::X86_64.debian();
    flavour.strip_suffix(end).map_or_else(|| flavour.to_owned(), |begin| begin.to_owned() + processor.debian())
}

/// Fetch the newest kernel of each series or release in `wishes` into `store`. `say` receives a line for each step.
/// Kernels fetched before the error stay in the cache.
pub fn fetch(
    store: &KernelCache,
    wishes: &[String],
    flavour: &str,
    say: &dyn Fn(&str),
) -> Result<Vec<(String, Fetched)>> {
    let mut done = Vec::new();
    for processor in Processor::ALL {
        let wishes: Vec<&String> = wishes.iter().filter(|wish| wished_for(wish) == processor).collect();
        if !wishes.is_empty() {
            done.extend(fetch_of(store, processor, &wishes, &flavour_of(flavour, processor), say)?);
        }
    }
    Ok(done)
}

/// The processor of a wish: `6.12:arm64`, or a release such as `6.12.118+deb13-cloud-arm64`.
fn wished_for(wish: &str) -> Processor {
    let (name, processor) = of_processor(wish);
    let is_named = |one: &Processor| name.split('-').any(|part| part == one.debian());
    Processor::ALL.into_iter().find(is_named).unwrap_or(processor)
}

/// The same for kernels of one processor.
fn fetch_of(
    store: &KernelCache,
    processor: Processor,
    wishes: &[&String],
    flavour: &str,
    say: &dyn Fn(&str),
) -> Result<Vec<(String, Fetched)>> {
    let mut mirror = match Mirror::open(store, processor, say) {
        Ok(mirror) => mirror,
        Err(error) => {
            let reason = format!("{error:#}");
            let cached =
                |wish: &&String| Ok(((*wish).clone(), from_cache(store, wish, anyhow::anyhow!(reason.clone()))?));
            return wishes.iter().map(cached).collect();
        }
    };
    let mut packages = mirror.packages(flavour)?;
    let mut done = Vec::new();
    for wish in wishes {
        cancel::check()?;
        let name = of_processor(wish).0;
        let fetched = match newest_that_comes(&mut mirror, store, &mut packages, name, flavour, say) {
            Ok(fetched) => fetched,
            Err(error) => from_cache(store, wish, error)?,
        };
        done.push(((*wish).clone(), fetched));
    }
    Ok(done)
}

/// How many kernels of one series to try. An index can list a kernel that the mirror's pool does not have yet, or no
/// longer has: of 5.10 for arm64, the newest seven.
const TRIES: usize = 10;

/// Download the newest kernel for `wish` that the mirror delivers. Refresh the index once, as it may be older than
/// the mirror.
fn newest_that_comes(
    mirror: &mut Mirror,
    store: &KernelCache,
    packages: &mut Vec<Package>,
    wish: &str,
    flavour: &str,
    say: &dyn Fn(&str),
) -> Result<Fetched> {
    let mut first = None;
    loop {
        for package in packages::matching(packages, wish).into_iter().take(TRIES) {
            let cached = store.list()?.into_iter().find(|entry| entry.release == package.release);
            if let Some(entry) = cached.filter(|entry| entry.version == package.version) {
                return Ok(Fetched::Kept(entry));
            }
            say(&format!("fetching {} {}", package.name, package.version));
            match mirror.download(store, package) {
                Ok(entry) => return Ok(Fetched::New(entry)),
                Err(error) => {
                    cancel::check()?;
                    say(&format!("{error:#}"));
                    first.get_or_insert(error);
                }
            }
            if !mirror.fresh {
                break;
            }
        }
        if !mirror.refresh(say)? {
            return Err(
                first.unwrap_or_else(|| anyhow::anyhow!(packages::gone(packages, wish, flavour, &mirror.troubles)))
            );
        }
        *packages = mirror.packages(flavour)?;
    }
}

/// Kernels on the mirror, newest first.
pub fn available(store: &KernelCache, flavour: &str, say: &dyn Fn(&str)) -> Result<Vec<Package>> {
    let processor = Processor::ALL.into_iter().find(|processor| flavour.ends_with(processor.debian()));
    Mirror::open(store, processor.unwrap_or_default(), say)?.packages(flavour)
}

/// A package linux-source on the mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourcePackage {
    pub name: String,
    /// The Debian version.
    pub version: String,
}

/// The newest source of this series, version or Debian version on the mirror. The index is refreshed once if it has
/// none.
pub(crate) fn source_package(store: &KernelCache, wish: &str, say: &dyn Fn(&str)) -> Result<SourcePackage> {
    let mut mirror = Mirror::open(store, Processor::X86_64, say)?;
    loop {
        let sources = packages::parse_sources(&mirror.index()?);
        if let Some(newest) = packages::matching_source(&sources, wish) {
            return Ok(SourcePackage { name: newest.0.clone(), version: newest.1.clone() });
        }
        if !mirror.refresh(say)? {
            let series: std::collections::BTreeSet<&str> =
                sources.iter().filter_map(|source| source.0.strip_prefix("linux-source-")).collect();
            let there: Vec<&str> = series.into_iter().collect();
            bail!("the mirror has no source of Linux {wish}; it has {}", there.join(", "));
        }
    }
}

/// Download a source's package; the caller removes it.
pub(crate) fn download_source(store: &KernelCache, package: &SourcePackage, say: &dyn Fn(&str)) -> Result<PathBuf> {
    let mirror = Mirror::open(store, Processor::X86_64, say)?;
    say(&format!("fetching {} {}", package.name, package.version));
    mirror
        .get(&package.name, &package.version)?
        .with_context(|| format!("apt reported the download of {}, but the file does not exist", package.name))
}

/// The line of sources.list for one suite, at the mirror that the machine's apt uses.
pub(crate) fn source_line(suite: &str) -> Result<String> {
    let all = sources(Processor::X86_64)?;
    let field = format!(" {suite} main");
    let known = all.lines().find(|line| line.ends_with(&field)).map(str::to_owned);
    let other = || Some(all.lines().find(|line| line.ends_with(" sid main"))?.replace(" sid ", &format!(" {suite} ")));
    let line = known.or_else(other).context("no Debian mirror in this machine's apt sources")?;
    Ok(line.replace("arch=amd64 ", "").replace("[arch=amd64] ", ""))
}

/// The cached kernel for `wish` when the mirror did not deliver one.
fn from_cache(store: &KernelCache, wish: &str, error: anyhow::Error) -> Result<Fetched> {
    match store.find(wish)? {
        Some(entry) => Ok(Fetched::Stale(entry, format!("{error:#}"))),
        None => Err(error.context(format!("cannot fetch kernel {wish}, and the cache does not have it"))),
    }
}

/// The machine's mirror, accessed through a private apt root.
struct Mirror {
    root: PathBuf,
    processor: Processor,
    fresh: bool,
    /// Errors and warnings of the last `apt update`.
    troubles: Vec<String>,
    _lock: crate::vm::store::CacheLock,
}

impl Mirror {
    /// Open the private apt root in `store`. Refresh its index if it is old.
    fn open(store: &KernelCache, processor: Processor, say: &dyn Fn(&str)) -> Result<Self> {
        let root = store.root().join(match processor {
            Processor::X86_64 => "apt".to_owned(),
            other => format!("apt-{}", other.debian()),
        });
        for folder in ["lists/partial", "archives/partial", "download"] {
            let folder = root.join(folder);
            fs::create_dir_all(&folder).with_context(|| no_room(&folder))?;
        }
        let lock = lock_file(&root.join("lock"))?;
        let sources = sources(processor)?;
        let list = root.join("sources.list");
        let changed = regular::read_text(&list, LONGEST_INDEX).ok().as_deref() != Some(sources.as_str());
        fs::write(&list, sources).with_context(|| format!("cannot write {}", list.display()))?;
        let configuration = CONFIGURATION.replace("ARCHITECTURE", processor.debian());
        fs::write(root.join("apt.conf"), configuration).context("cannot write apt.conf into the cache")?;
        let mut mirror = Self { root, processor, fresh: false, troubles: Vec::new(), _lock: lock };
        let unread = !mirror.root.join(KERNELS).is_file();
        if changed || unread || mirror.index_age().is_none_or(|age| age > INDEX_AGE) {
            mirror.refresh(say)?;
        }
        Ok(mirror)
    }

    fn stamp(&self) -> PathBuf {
        self.root.join("updated")
    }

    fn index_age(&self) -> Option<Duration> {
        fs::metadata(self.stamp()).ok()?.modified().ok()?.elapsed().ok()
    }

    /// Refresh the index. Returns false if this process has already done so.
    fn refresh(&mut self, say: &dyn Fn(&str)) -> Result<bool> {
        if self.fresh {
            return Ok(false);
        }
        say("updating the list of kernels from the Debian mirror");
        let output = self.apt("apt-get").args(["--quiet", "update"]).output().context(NO_APT)?;
        // apt fails if the mirror no longer has one of the suites, but it still reads the others.
        self.troubles = complaints(&output);
        self.extract()?;
        if self.packages(&flavour_of(SMALLEST_FLAVOUR, self.processor))?.is_empty() {
            bail!("cannot read the Debian mirror's index: {}", self.troubles.join("; "));
        }
        self.fresh = true;
        let said = String::from_utf8_lossy(&output.stdout);
        if said.lines().any(|line| line.starts_with("Get:") || line.starts_with("Hit:")) {
            fs::write(self.stamp(), b"").with_context(|| format!("cannot write {}", self.stamp().display()))?;
        } else {
            // The lists of an earlier update are still there.
            say(&format!("cannot reach the Debian mirror, using an old list of kernels: {}", self.troubles.join("; ")));
        }
        Ok(true)
    }

    /// Keep only the kernels of the index: reading all of it takes seconds.
    fn extract(&self) -> Result<()> {
        let mut dump = self.apt("apt-cache").arg("dumpavail").stdout(Stdio::piped()).spawn().context(NO_APT)?;
        let mut kept = Vec::new();
        if let Some(stdout) = dump.stdout.take() {
            kept = kernel_paragraphs(BufReader::with_capacity(1 << 20, stdout))?;
        }
        dump.wait().context("apt-cache")?;
        atomic_file::write(&self.root.join(KERNELS), &kept)
    }

    /// Kernels of `flavour`, newest first.
    fn packages(&self, flavour: &str) -> Result<Vec<Package>> {
        Ok(parse_packages(&self.index()?, flavour))
    }

    fn index(&self) -> Result<Vec<u8>> {
        let path = self.root.join(KERNELS);
        regular::read(&path, LONGEST_INDEX).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Download a package. `None` if the file is not where apt puts it.
    fn get(&self, name: &str, version: &str) -> Result<Option<PathBuf>> {
        let folder = self.root.join("download");
        let output = self
            .apt("apt-get")
            .args(["--quiet", "download", &format!("{name}={version}")])
            .current_dir(&folder)
            .output()
            .context(NO_APT)?;
        cancel::check()?;
        if !output.status.success() {
            bail!("cannot download {name} {version}: {}", complaints(&output).join("; "));
        }
        Ok(newest_deb(&folder, name, version))
    }

    /// Download `package` and put its kernel into `store`.
    fn download(&self, store: &KernelCache, package: &Package) -> Result<CachedKernel> {
        let folder = self.root.join("download");
        let deb = self
            .get(&package.name, &package.version)?
            .with_context(|| format!("apt reported the download of {}, but the file does not exist", package.name))?;
        // Since 6.19 the configuration is in a separate package. A kernel without it can still be booted.
        let base = match package.name.strip_prefix("linux-binary-") {
            Some(_) => self.get(&format!("linux-base-{}", package.release), &package.version).ok().flatten(),
            None => None,
        };
        let mut config = None;
        let aside = tempfile::tempdir_in(&folder).context("cannot write into the cache")?;
        if let Some(base) = &base {
            config = crate::vm::deb::unpack(base, aside.path()).ok().and_then(|contents| contents.config);
        }
        if base.is_none() && package.name.starts_with("linux-binary-") {
            progress::note(&format!(
                "{}: the mirror no longer has its configuration (linux-base-{}), so comparisons do not know its options",
                package.name, package.release
            ));
        }
        let entry = store.add(&deb, &package.name, Some(&package.version), config.as_deref(), None)?;
        for file in [Some(deb), base].into_iter().flatten() {
            // If it cannot be removed, it only takes up space.
            let _ = fs::remove_file(file);
        }
        Ok(entry)
    }

    /// `apt-get` or `apt-cache` with the private root.
    fn apt(&self, tool: &str) -> Command {
        let mut command = Command::new(tool);
        let path = |name: &str| self.root.join(name).display().to_string();
        for (name, value) in [
            ("Dir::Etc::sourcelist", path("sources.list")),
            ("Dir::Etc::sourceparts", "/dev/null".to_owned()),
            ("Dir::State::lists", path("lists")),
            ("Dir::State::status", "/dev/null".to_owned()),
            ("Dir::Cache", self.root.display().to_string()),
            ("Dir::Cache::archives", path("archives")),
        ] {
            command.arg("--option").arg(format!("{name}={value}"));
        }
        command.arg("--config-file").arg(self.root.join("apt.conf"));
        command.env("LC_ALL", "C").stdin(Stdio::null()).stderr(Stdio::piped());
        command
    }
}

const NO_APT: &str =
    "cannot start apt, which fetches kernels on Debian: add a kernel file with `pipeprof kernel add PATH`";

/// Settings of the private root that cannot be given on the command line.
const CONFIGURATION: &str = r#"// Written by pipeprof for its private apt root.
// Hooks of the machine (container images have some) are about its own cache.
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear APT::Update::Pre-Invoke;
// The folders are the user's, which apt's own user cannot write.
APT::Sandbox::User "root";
APT::Architecture "ARCHITECTURE";
APT::Architectures { "ARCHITECTURE"; };
Acquire::Languages "none";
// Only the lists of packages.
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
Acquire::Retries "3";
"#;

/// The private sources.list: the suites above, at the mirrors that the machine's apt uses.
fn sources(processor: Processor) -> Result<String> {
    let output = Command::new("apt-get")
        .args(["indextargets", "--no-release-info", "--format", "$(RELEASE) $(SITE)", "Created-By: Packages"])
        .stdin(Stdio::null())
        .output()
        .context(NO_APT)?;
    let targets = String::from_utf8_lossy(&output.stdout).into_owned();
    let (main, security) = sites(&targets);
    let Some(main) = main else {
        bail!("no Debian mirror in this machine's apt sources: add one, or boot a kernel file with --kernel PATH")
    };
    let signed = if Path::new(KEYRING).is_file() { format!(" signed-by={KEYRING}") } else { String::new() };
    let mut text = String::from("# Written by pipeprof from the machine's own sources.\n");
    let suites = SUITES.iter().map(|suite| (main, suite));
    let suites = suites.chain(security.into_iter().flat_map(|site| SECURITY_SUITES.iter().map(move |s| (site, s))));
    for (site, suite) in suites {
        text.push_str(&format!("deb [arch={}{signed}] {site} {suite} main\n", processor.debian()));
    }
    Ok(text)
}

/// Debian's main and security mirrors, from lines of `RELEASE SITE`.
fn sites(targets: &str) -> (Option<&str>, Option<&str>) {
    let pairs = || targets.lines().filter_map(|line| line.split_once(' '));
    let known = |release: &str| RELEASES.contains(&release);
    let main = pairs().find(|(release, _)| known(release) || release.strip_suffix("-updates").is_some_and(known));
    let security = pairs().find(|(release, _)| {
        release.strip_suffix("-security").or_else(|| release.strip_suffix("/updates")).is_some_and(known)
    });
    (main.map(|pair| pair.1), security.map(|pair| pair.1))
}

/// The part of the index that is kept: these fields of packages whose names begin with `linux-`.
const KERNELS: &str = "kernels";

/// At most four lines of apt's output that say what failed.
fn complaints(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let said: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("E: ").or_else(|| line.strip_prefix("W: ")))
        .map(|line| line.trim().to_owned())
        .take(4)
        .collect();
    if said.is_empty() && !output.status.success() { vec![format!("apt failed: {}", output.status)] } else { said }
}

fn newest_deb(folder: &Path, package: &str, version: &str) -> Option<PathBuf> {
    // Without the epoch.
    let start = format!("{package}_{}_", version.split_once(':').map_or(version, |(_, version)| version));
    let entries = fs::read_dir(folder).ok()?.flatten();
    let debs = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name.starts_with(&start) && name.ends_with(".deb"))
    });
    debs.max_by_key(|entry| entry.metadata().and_then(|metadata| metadata.modified()).ok()).map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_are_told_from_other_sources() {
        let targets = "nodistro http://a/x\nbookworm http://b/debian\nbookworm-security http://c/security\n";
        assert_eq!(sites(targets), (Some("http://b/debian"), Some("http://c/security")));
        assert_eq!(sites("jammy http://u/ubuntu\n"), (None, None));
    }

    #[test]
    fn a_wish_names_its_processor() {
        for wish in ["6.12:arm64", "6.12.118+deb13-cloud-arm64", "linux-image-6.1.0-57-cloud-arm64-unsigned"] {
            assert_eq!(wished_for(wish), Processor::Aarch64, "{wish}");
        }
        assert_eq!(wished_for("6.1.0-57-cloud-amd64"), Processor::X86_64);
        assert_eq!(wished_for("6.12"), Processor::HERE);
    }
}
