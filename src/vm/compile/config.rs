//! The configuration of a build: a base, what is left out of it, and options that the user sets.

use crate::arch::Processor;
use crate::kernel::config as options;
use crate::util::{regular, sha256};
use crate::vm::hardware::Hardware;
use crate::vm::image::{self, Kernel};
use anyhow::{Context as _, Result, bail, ensure};
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What is left out of a distribution's configuration: modules are not built at all, and of what is built in, drivers
/// and other parts that no pipe's code reads. docs/builds.md says how it was found.
const THINNING: &str = include_str!("thin.config");

/// No configuration is longer, bytes.
pub(super) const LONGEST: u64 = 16 << 20;

/// The name of the smallest configuration.
const TINY: &str = "tinyconfig";

/// What a guest cannot do without, beside its machine's console.
const NEEDED: [&str; 5] = ["BLK_DEV_INITRD", "BINFMT_ELF", "KALLSYMS", "PROC_FS", "DEVTMPFS"];

/// One option that the user sets: `HZ=1000`, `MEMCG=n`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionSetting {
    /// Without `CONFIG_`.
    pub option: String,
    pub value: String,
}

impl FromStr for OptionSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (option, value) = text.split_once('=').ok_or("give OPTION=VALUE, such as MEMCG=n or HZ_1000=y")?;
        let option = option.strip_prefix("CONFIG_").unwrap_or(option);
        if option.is_empty() || !option.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(format!("'{option}' is not the name of an option"));
        }
        let quoted = value.len() >= 2 && value.starts_with('"') && value.ends_with('"');
        let number = value.strip_prefix('-').unwrap_or(value);
        let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_alphanumeric());
        if value.contains(['\n', '\\']) || !(quoted || is_number) {
            return Err(format!("'{value}' is not a value: give y, m, n, a number or a text in double quotes"));
        }
        Ok(Self { option: option.to_owned(), value: value.to_owned() })
    }
}

impl std::fmt::Display for OptionSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.option, self.value)
    }
}

/// The base of a configuration, as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaseName {
    /// A configuration file, or a kernel in the cache.
    Named(String),
    /// `make tinyconfig` with what guests need.
    Tiny,
    /// That of the cached kernel of the source's series.
    OfSeries,
}

impl std::fmt::Display for BaseName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Named(name) => name,
            Self::Tiny => TINY,
            Self::OfSeries => "the source's series",
        })
    }
}

/// The base of a configuration.
#[derive(Debug, Clone)]
pub(crate) struct BaseConfig {
    /// What it is, for people.
    pub shown: String,
    /// The file's text; `None` for `make tinyconfig`.
    text: Option<String>,
    hardware: &'static Hardware,
}

/// The lines that set an option to leave out what no pipe's code reads.
fn thinning(hardware: &Hardware) -> impl Iterator<Item = &'static str> {
    let all = [THINNING, hardware.left_out].into_iter().flat_map(str::lines);
    all.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

impl BaseConfig {
    /// Read the base of `name` for this processor, for a source of this series.
    pub(crate) fn find(name: &BaseName, series: &str, processor: Processor) -> Result<Self> {
        let hardware = Hardware::of(processor);
        let of_series = match processor {
            Processor::HERE => series.to_owned(),
            other => format!("{series}:{}", other.debian()),
        };
        let name = match name {
            BaseName::Tiny => return Ok(Self { shown: TINY.to_owned(), text: None, hardware }),
            BaseName::Named(name) => name.as_str(),
            BaseName::OfSeries => &of_series,
        };
        let path = Path::new(name);
        let (path, shown) = if path.is_file() && image::release_of(path).is_err() {
            let absolute = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            (path.to_owned(), absolute.display().to_string())
        } else {
            let kernel = Kernel::find(name).map_err(|error| {
                let said = format!("{error:#}");
                anyhow::anyhow!("--config {}", said.strip_prefix("--kernel ").unwrap_or(&said))
            })?;
            let path: Option<PathBuf> = kernel.config;
            (path.with_context(|| format!("--config {name}: its configuration is not known"))?, kernel.release)
        };
        let text = read(&path).with_context(|| format!("--config {name}"))?;
        let is_for = |processor: &Processor| values(&text).get(Hardware::of(*processor).own_option) == Some(&"y");
        if let Some(other) = Processor::ALL.into_iter().find(|other| *other != processor && is_for(other)) {
            let name_of_other = other.debian();
            bail!("--config {name}: it is of a kernel for {name_of_other}: add `--arch {name_of_other}`");
        }
        Ok(Self { shown, text: Some(text), hardware })
    }

    /// Equal for equal content, with all that is added to it.
    pub(crate) fn digest(&self, settings: &[OptionSetting]) -> String {
        let mut parts = match &self.text {
            Some(text) => {
                let thinning: String = thinning(self.hardware).collect();
                vec!["file".to_owned(), sha256::of_bytes(text.as_bytes()), sha256::of_bytes(thinning.as_bytes())]
            }
            None => vec!["tiny".to_owned(), sha256::of_bytes(self.hardware.needed_options().as_bytes())],
        };
        parts.extend(settings.iter().map(OptionSetting::to_string));
        sha256::of_parts(parts.iter().map(String::as_str))
    }

    /// Whether `make tinyconfig` makes the file that the rest is added to.
    pub(crate) fn is_tiny(&self) -> bool {
        self.text.is_none()
    }

    /// The text of `.config` before `make olddefconfig`; `tiny` is that of `make tinyconfig`. Of two lines for one
    /// option, the last counts.
    pub(crate) fn text(&self, tiny: &str, settings: &[OptionSetting]) -> String {
        let (first, second) = match &self.text {
            Some(text) => (text.as_str(), format!("{THINNING}{}", self.hardware.left_out)),
            None => (tiny, self.hardware.needed_options()),
        };
        let mut text = format!("{first}\n{second}\n");
        for OptionSetting { option, value } in settings {
            text.push_str(&format!("CONFIG_{option}={value}\n"));
        }
        text
    }

    /// Refuse the file that `make olddefconfig` has made if it does not have the settings, or what guests need.
    pub(crate) fn check(&self, made: &str, settings: &[OptionSetting]) -> Result<()> {
        let values = values(made);
        let value = |option: &str| values.get(option).copied().unwrap_or("n");
        for setting in settings {
            let now = value(&setting.option);
            ensure!(
                now == setting.value,
                "--set {setting}: the source made it {}={now}: the option does not exist there, or depends on others",
                setting.option
            );
        }
        let needed = [self.hardware.console_option].into_iter().chain(NEEDED);
        let missing: Vec<&str> = needed.filter(|option| value(option) != "y").collect();
        if !missing.is_empty() {
            bail!(
                "the configuration of {} does not have {}, which guests need: add `pipeprof kernel config`, or use --tiny",
                self.shown,
                missing.join(", ")
            );
        }
        Ok(())
    }

    /// The options that matter to pipes and differ between the base and what was made of it: name, before, after.
    pub(crate) fn changed(&self, made: &str) -> Vec<(String, String, String)> {
        let Some(text) = &self.text else { return Vec::new() };
        let parse = |text: &str| options::parse(text.as_bytes()).unwrap_or_default();
        let (before, after) = (parse(text), parse(made));
        let value = |of: &BTreeMap<String, String>, name: &str| of.get(name).map_or("n", String::as_str).to_owned();
        let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        names
            .into_iter()
            .filter(|name| options::matters(name))
            .map(|name| (name.clone(), value(&before, name), value(&after, name)))
            .filter(|(_, before, after)| before != after)
            .collect()
    }
}

/// The values of a `.config` by option, without `CONFIG_`.
pub(super) fn values(config: &str) -> BTreeMap<&str, &str> {
    config.lines().filter_map(|line| line.strip_prefix("CONFIG_")?.split_once('=')).collect()
}

fn read(path: &Path) -> Result<String> {
    let bytes = regular::read(path, LONGEST).with_context(|| format!("cannot read {}", path.display()))?;
    let mut text = String::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        GzDecoder::new(&bytes[..]).take(LONGEST).read_to_string(&mut text).context("cannot unpack it")?;
    } else {
        text = String::from_utf8(bytes).context("not a kernel configuration")?;
    }
    options::parse(text.as_bytes())?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUEST: &str = "CONFIG_SERIAL_8250_CONSOLE=y\nCONFIG_BLK_DEV_INITRD=y\nCONFIG_BINFMT_ELF=y\nCONFIG_KALLSYMS=y\n\
        CONFIG_PROC_FS=y\nCONFIG_DEVTMPFS=y\n";

    fn base() -> BaseConfig {
        let text = Some("CONFIG_NUMA=y\nCONFIG_HZ=250\n".to_owned());
        BaseConfig { shown: "x".to_owned(), text, hardware: Hardware::of(Processor::X86_64) }
    }

    fn settings(words: &[&str]) -> Vec<OptionSetting> {
        words.iter().map(|word| word.parse().unwrap()).collect()
    }

    #[test]
    fn settings_are_options_with_values() {
        let setting = |text: &str| text.parse::<OptionSetting>();
        assert_eq!(setting("CONFIG_MEMCG=n"), setting("MEMCG=n"));
        assert!(setting("LOCALVERSION=\"-x\"").is_ok() && setting("PHYSICAL_START=0x1000000").is_ok());
        for wrong in ["MEMCG", "=y", "A B=y", "HZ=", "X=\"a\nb\"", "X=a b", "X=y\nCONFIG_Y=y"] {
            assert!(setting(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_last_line_counts_and_settings_come_last() {
        let text = base().text("", &settings(&["HZ=1000", "EFI=n"]));
        assert!(text.starts_with("CONFIG_NUMA=y\n") && text.ends_with("CONFIG_HZ=1000\nCONFIG_EFI=n\n"), "{text}");
        assert_eq!(values(&text)["HZ"], "1000");
        for processor in Processor::ALL {
            let tiny = BaseConfig::find(&BaseName::Tiny, "", processor).unwrap();
            assert!(tiny.text("CONFIG_A=y", &[]).contains(&format!("CONFIG_{}=y", tiny.hardware.console_option)));
        }
    }

    #[test]
    fn a_setting_that_the_source_refuses_is_an_error() {
        let check =
            |made: &str, words: &[&str]| base().check(made, &settings(words)).map_err(|error| error.to_string());
        assert_eq!(check(&format!("{GUEST}CONFIG_HZ=1000\n"), &["HZ=1000", "EFI=n"]), Ok(()));
        let why = check(&format!("{GUEST}CONFIG_HZ=250\n"), &["HZ=1000"]).unwrap_err();
        assert!(why.starts_with("--set HZ=1000: the source made it HZ=250"), "{why}");
        let why = check("CONFIG_KALLSYMS=y\n", &[]).unwrap_err();
        assert!(why.contains("does not have SERIAL_8250_CONSOLE, BLK_DEV_INITRD"), "{why}");
    }

    #[test]
    fn what_the_thinning_changes_of_pipes_is_known() {
        let changed = base().changed("CONFIG_HZ=250\nCONFIG_NUMA=n\n");
        assert_eq!(changed, [("CONFIG_NUMA".to_owned(), "y".to_owned(), "n".to_owned())]);
        assert_ne!(base().digest(&[]), base().digest(&settings(&["HZ=1000"])));
    }

    #[test]
    fn the_thinning_sets_each_option_once_and_nothing_that_matters_to_pipes() {
        for processor in Processor::ALL {
            let mut seen = std::collections::BTreeSet::new();
            for line in thinning(Hardware::of(processor)) {
                let (name, _) = line.split_once('=').unwrap();
                assert!(seen.insert(name), "{name} is given twice");
                assert!(name == "CONFIG_IKCONFIG" || !options::matters(name), "{name} matters to pipes");
            }
        }
    }

    #[test]
    fn a_configuration_for_another_processor_names_the_flag() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, "CONFIG_ARM64=y\n").unwrap();
        let name = BaseName::Named(path.display().to_string());
        let why = format!("{:#}", BaseConfig::find(&name, "", Processor::X86_64).unwrap_err());
        assert!(why.ends_with("it is of a kernel for arm64: add `--arch arm64`"), "{why}");
        assert!(BaseConfig::find(&name, "", Processor::Aarch64).is_ok());
    }
}
