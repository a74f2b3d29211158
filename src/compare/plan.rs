//! What a matrix runs: every column in every mode, each a command line of `pipeprof run`.

use crate::vm;
use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::UNIX_EPOCH;

/// The `schema` of `matrix.json`.
pub const SCHEMA: &str = "pipeprof.matrix/1";

/// The axes, as given on the command line. An empty one does not vary.
#[derive(Debug, Clone, Default)]
pub struct Axes {
    pub kernels: Vec<String>,
    pub modes: Vec<String>,
    pub appends: Vec<String>,
    pub cpus: Vec<String>,
    pub memcg: Vec<bool>,
    pub buffer_sizes: Vec<String>,
    pub variants: Vec<String>,
    /// Flags of `pipeprof run` for every column.
    pub run_flags: String,
}

/// One column to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnPlan {
    /// What to call it; absent: what its runs say of themselves.
    pub label: Option<String>,
    /// The kernel as given.
    pub kernel: Option<String>,
    /// Flags of `pipeprof run`, without the mode.
    pub flags: Vec<String>,
    /// Size and time of the kernel's image: an image built anew is another kernel.
    pub image: Option<String>,
}

/// A whole matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub schema: String,
    /// pipeprof's version and build: another build moves the bytes in other code.
    pub build: String,
    pub columns: Vec<ColumnPlan>,
    pub modes: Vec<String>,
    /// Blocks in which every column runs once, shuffled: boots of guests, spells of the host. One where exact.
    pub blocks: usize,
    /// Fresh pairs per column, mode and block; absent where exact.
    pub pairs: Option<u32>,
    /// Whether the first column is measured a second time, as a control.
    pub control: bool,
    pub seed: u64,
}

/// Multiply the axes out, the first to vary slowest: kernel, CPU, kernel arguments, cgroup, buffer, variant.
///
/// # Errors
/// Where flags cannot be read, or fewer than two columns come out.
pub fn columns(axes: &Axes) -> Result<Vec<ColumnPlan>> {
    let common = split(&axes.run_flags).map_err(|why| anyhow::anyhow!("--run-flags: {why}"))?;
    let mut columns = vec![ColumnPlan { label: None, kernel: None, flags: Vec::new(), image: None }];
    columns = vary(&columns, &axes.kernels, |column, kernel| {
        column.label = name_of(kernel);
        column.kernel = Some(kernel.clone());
        column.image = image(kernel);
        column.flags.extend(["--kernel".to_owned(), kernel.clone()]);
        Ok(())
    })?;
    columns = vary(&columns, &axes.cpus, |column, cpu| {
        if !cpu.is_empty() {
            column.flags.extend(["--cpu".to_owned(), cpu.clone()]);
        }
        name(column, &format!("cpu={}", if cpu.is_empty() { "default" } else { cpu }), axes.cpus.len());
        Ok(())
    })?;
    columns = vary(&columns, &axes.appends, |column, append| {
        if !append.is_empty() {
            column.flags.push(format!("--append={append}"));
            name(column, append, axes.appends.len());
        }
        Ok(())
    })?;
    columns = vary(&columns, &axes.memcg, |column, memcg| {
        if !memcg {
            column.flags.push("--no-memcg".to_owned());
        }
        name(column, if *memcg { "memcg" } else { "no memcg" }, axes.memcg.len());
        Ok(())
    })?;
    columns = vary(&columns, &axes.buffer_sizes, |column, size| {
        column.flags.extend(["--buffer-size".to_owned(), size.clone()]);
        name(column, size, axes.buffer_sizes.len());
        Ok(())
    })?;
    columns = vary(&columns, &axes.variants, |column, variant| {
        column.flags.extend(split(variant).map_err(|why| anyhow::anyhow!("--variant: {why}"))?);
        if !variant.trim().is_empty() {
            name(column, variant.trim(), axes.variants.len());
        }
        Ok(())
    })?;
    for column in &mut columns {
        column.flags.extend(common.iter().cloned());
    }
    ensure!(
        columns.len() >= 2,
        "one column is nothing to compare: repeat --kernel, --append (--append '' for none), --cpu, --memcg, \
         --buffer-size or --variant, or give stored runs"
    );
    number_copies(&mut columns);
    Ok(columns)
}

fn vary<T>(
    columns: &[ColumnPlan],
    values: &[T],
    apply: impl Fn(&mut ColumnPlan, &T) -> Result<()>,
) -> Result<Vec<ColumnPlan>> {
    if values.is_empty() {
        return Ok(columns.to_vec());
    }
    let mut out = Vec::new();
    for column in columns {
        for value in values {
            let mut column = column.clone();
            apply(&mut column, value)?;
            out.push(column);
        }
    }
    Ok(out)
}

/// Add to a column's label, where the axis varies.
fn name(column: &mut ColumnPlan, what: &str, values: usize) {
    if values > 1 {
        column.label = Some(match &column.label {
            Some(label) => format!("{label} {what}"),
            None => what.to_owned(),
        });
    }
}

/// A series or release is its own label; the path of an image is none, its run knows the release.
fn name_of(kernel: &str) -> Option<String> {
    (!kernel.contains('/') && !Path::new(kernel).exists()).then(|| kernel.to_owned())
}

/// The same column twice (A/A) gets numbers.
fn number_copies(columns: &mut [ColumnPlan]) {
    let labels: Vec<Option<String>> = columns.iter().map(|column| column.label.clone()).collect();
    for (index, column) in columns.iter_mut().enumerate() {
        let Some(label) = &labels[index] else { continue };
        if labels.iter().filter(|other| other.as_ref() == Some(label)).count() > 1 {
            let number = labels[..=index].iter().filter(|other| other.as_ref() == Some(label)).count();
            column.label = Some(format!("{label} ({number})"));
        }
    }
}

fn image(kernel: &str) -> Option<String> {
    let metadata = std::fs::metadata(vm::Kernel::find(kernel).ok()?.image).ok()?;
    let changed = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{} bytes, changed {}.{:09}", metadata.len(), changed.as_secs(), changed.subsec_nanos()))
}

/// Split flags as a shell does, quotes understood, nothing expanded.
///
/// # Errors
/// A quote that is not closed.
pub fn split(text: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        bail!("a quote is not closed in '{text}'");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axes: &Axes) -> Vec<String> {
        columns(axes).unwrap().into_iter().map(|column| column.label.unwrap_or_default()).collect()
    }

    fn texts(values: &[&str]) -> Vec<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    }

    #[test]
    fn axes_multiply() {
        let axes =
            Axes { kernels: texts(&["6.1", "6.12"]), appends: texts(&["", "mitigations=off"]), ..Axes::default() };
        assert_eq!(labels(&axes), ["6.1", "6.1 mitigations=off", "6.12", "6.12 mitigations=off"]);
        assert_eq!(columns(&axes).unwrap()[1].flags, ["--kernel", "6.1", "--append=mitigations=off"]);
    }

    #[test]
    fn variants_are_flags_of_run() {
        let axes = Axes {
            kernels: texts(&["6.1"]),
            variants: texts(&["", "--extra-call-every 100 --append 'psi=0 quiet'"]),
            run_flags: "--calls 500".into(),
            ..Axes::default()
        };
        let columns = columns(&axes).unwrap();
        assert_eq!(columns[0].flags, ["--kernel", "6.1", "--calls", "500"]);
        assert_eq!(
            columns[1].flags,
            ["--kernel", "6.1", "--extra-call-every", "100", "--append", "psi=0 quiet", "--calls", "500"]
        );
    }

    #[test]
    fn the_same_kernel_twice_is_two_columns() {
        let axes = Axes { kernels: texts(&["6.1", "6.1"]), ..Axes::default() };
        assert_eq!(labels(&axes), ["6.1 (1)", "6.1 (2)"]);
    }

    #[test]
    fn one_column_is_refused_with_the_ways_to_more() {
        let error = columns(&Axes { kernels: texts(&["6.1"]), ..Axes::default() }).unwrap_err().to_string();
        assert!(error.contains("--append"), "{error}");
        assert!(split("--append 'x").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text: String) {
            let _ = split(&text);
        }
    }
}
