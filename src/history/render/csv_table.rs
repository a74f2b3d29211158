//! `history.csv`: one row per workload, kernel and role.

use crate::history::{CountSpan, History};
use crate::roles;
use anyhow::{Context as _, Result};

/// The table. The rows `total` and `without-scheduling` are sums.
pub(super) fn render(history: &History) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let header = ["mode", "cpus", "setting", "kernel", "release", "role", "instructions_per_kib", "least", "greatest"];
    writer.write_record(header).context("cannot write CSV")?;
    for line in &history.lines {
        for point in &line.points {
            let kernel = history.kernels.get(point.kernel).context("a point has a kernel")?;
            let sums = [("without-scheduling", point.without_scheduling), ("total", point.total)];
            let roles = point.roles.iter().map(|(role, span)| (roles::by_id(*role).id.as_str(), *span));
            for (role, CountSpan { value, low, high }) in sums.into_iter().chain(roles) {
                let numbers = [value, low, high].map(|number| format!("{number:.4}"));
                let texts = [&line.mode, &line.cpus.to_string(), &line.setting, &kernel.label, &kernel.release];
                let row = texts.into_iter().map(String::as_str).chain([role]).chain(numbers.iter().map(String::as_str));
                writer.write_record(row).context("cannot write CSV")?;
            }
        }
    }
    let bytes = writer.into_inner().context("cannot write CSV")?;
    String::from_utf8(bytes).context("CSV is text")
}
