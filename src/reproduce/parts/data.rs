//! What the parts run and say: `parts.toml`.

use crate::profile::ProcessName;
use crate::report::chart::{Chart, ChartKind, Point, Series};
use crate::reproduce::reproduced::ExtraTable;
use crate::roles::RoleId;
use crate::workload::Spec;
use crate::workload::axes::Overrides;
use anyhow::{Context as _, Result, anyhow};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The types of `parts.toml`.
macro_rules! data {
    ($($name:ident { $($(#[$more:meta])* $field:ident: $kind:ty,)+ })+) => {$(
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$more])* pub $field: $kind,)+
        }
    )+};
}

data! {
    PartsData {
        ladder: LadderData, memory: MemoryData, buffers: BuffersData, cat: CatData, profiles: ProfilesData,
        scale: ScaleData,
    }
    LadderData {
        article: String, rungs: Vec<Rung>, variants: Vec<Rung>, ratio: RungRatio, steps: Vec<LadderStep>,
        claims: Vec<LadderClaim>, user_pages: UserPagesData, speeds: TableText, removed: TableText, chart: ChartText,
    }
    Rung {
        id: String, name: String, base: Option<String>, #[serde(default)] profiled: bool,
        #[serde(deserialize_with = "spec")] axes: Spec,
    }
    RungRatio { fact: String, of: String, to: String, }
    LadderStep {
        from: String, to: String, argument: String, removes: Vec<RoleId>, #[serde(default)] sleep: bool,
        avoids: String, #[serde(default)] in_a_guest: String,
    }
    LadderClaim { fact: String, from: String, to: String, roles: Vec<RoleId>, }
    UserPagesData { fact: String, functions: [String; 2], pages: [NamedSpec; 2], table: TableText, }
    NamedSpec { name: String, #[serde(deserialize_with = "spec")] axes: Spec, }
    MemoryData {
        tables: Vec<String>, loops: Vec<NamedLoop>, vectors: Vec<VectorFact>, modes: Vec<String>,
        claims: Vec<RatioClaim>, untestable: UntestableClaim,
        measured: TableText, errata: TableText, pipes: TableText, chart: ChartText,
    }
    NamedLoop { #[serde(default)] fact: String, name: String, bytes: u64, }
    VectorFact { fact: String, widest: String, boot: String, }
    RatioClaim { text: String, article: String, loops: [NamedLoop; 2], above: Option<f64>, least: Option<f64>, }
    UntestableClaim { text: String, article: String, measured: String, }
    BuffersData {
        article: String, piped: f64, sizes: Vec<u64>, quick: Vec<u64>, listed: Vec<u64>, counted: Vec<u64>,
        asleep: Vec<RoleId>, writers: [NamedSpec; 2], base: WriterSize, speeds: Vec<WriterSize>, program: String,
        awake: String, whole: String, note: String, limited: String, some_counted: String,
        table: TableText, chart: ChartText,
    }
    WriterSize { #[serde(default)] fact: String, writer: String, bytes: u64, }
    CatData {
        article: String, ways: Vec<CatWay>, readers: Vec<NamedSpec>, note: String, table: TableText, chart: ChartText,
    }
    CatWay {
        id: String, name: String, #[serde(default)] from_file: bool, #[serde(deserialize_with = "spec")] axes: Spec,
    }
    ProfilesData {
        rungs: BTreeMap<String, String>, copy_loop: CopyLoop, published: Vec<PublishedProfile>,
        by_role: TableText, listed: TableText,
    }
    CopyLoop { fact: String, profile: String, function: String, }
    PublishedProfile { id: String, title: String, table: String, #[serde(deserialize_with = "spec")] axes: Spec, }
    ScaleData {
        mode: String, lock: Vec<RoleId>, axes: Vec<ScaleAxis>, few_cpus: String, table: TableText, chart: ChartText,
    }
    ScaleAxis { name: String, short: String, about: String, process: ProcessName, }
    TableText { title: String, header: String, note: String, }
    ChartText {
        id: String, title: String, #[serde(default)] x: String, y: String, #[serde(default)] related: String,
        caption: String,
    }
}

/// The default workload with some axes of its own.
fn spec<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Spec, D::Error> {
    let mut spec = Spec::default();
    Overrides::deserialize(deserializer)?.apply(&mut spec).map_err(D::Error::custom)?;
    Ok(spec)
}

static DATA: LazyLock<Result<PartsData>> = LazyLock::new(|| {
    // The reader of TOML would be compiled four times for each type, that of a value only once.
    let value: serde_json::Value = toml::from_str(include_str!("parts.toml"))?;
    Ok(serde_json::from_value(value)?)
});

impl PartsData {
    /// What is built in.
    pub fn get() -> Result<&'static Self> {
        DATA.as_ref().map_err(|error| anyhow!("{error:#}")).context("invalid built-in parts.toml")
    }
}

/// `text` with its `{name}`s replaced.
pub fn filled(text: &str, values: &[(&str, String)]) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

impl TableText {
    /// The table, without rows.
    pub fn table(&self, values: &[(&str, String)]) -> ExtraTable {
        ExtraTable::new(filled(&self.title, values), &self.header, filled(&self.note, values))
    }
}

impl ChartText {
    /// The chart. `related`: its values are relative to those of one row.
    pub fn chart(
        &self,
        kind: ChartKind,
        related: bool,
        series: impl IntoIterator<Item = (String, Vec<Point>)>,
        values: &[(&str, String)],
    ) -> Chart {
        let series = series.into_iter().map(|(name, points)| Series { name, points }).collect();
        let (id, title, x) = (self.id.clone(), self.title.clone(), self.x.clone());
        let y = if related { self.related.clone() } else { self.y.clone() };
        Chart { id, title, kind, y, x, series, caption: filled(&self.caption, values) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::facts::Facts;

    #[test]
    fn what_is_built_in_is_whole_and_names_facts_that_exist() {
        let (data, facts) = (PartsData::get().unwrap(), Facts::load().unwrap());
        let ladder = &data.ladder;
        let named = ladder.claims.iter().map(|claim| &claim.fact).chain([&ladder.ratio.fact, &ladder.user_pages.fact]);
        let named = named.chain(data.memory.loops.iter().map(|entry| &entry.fact));
        let named = named.chain(data.memory.vectors.iter().map(|entry| &entry.fact));
        let named = named.chain(data.buffers.speeds.iter().map(|entry| &entry.fact));
        for id in named.chain([&data.buffers.program, &data.profiles.copy_loop.fact]) {
            assert!(facts.find(id).is_some(), "{id}");
        }
        let tables = data.profiles.rungs.values().chain(data.profiles.published.iter().map(|profile| &profile.table));
        assert!(tables.chain(&data.memory.tables).all(|id| facts.table(id).is_some()));
        assert_eq!(filled("{runs} on {cpu}", &[("runs", "2 runs".into()), ("cpu", "1".into())]), "2 runs on 1");
    }
}
