//! `history.csv`: one row per workload, kernel and role.

use crate::history::{CountSpan, History};
use crate::roles;
use crate::util::csv_text::csv_text;
use anyhow::{Context as _, Result};

/// The table. The rows `total` and `without-scheduling` are sums.
pub(super) fn render(history: &History) -> Result<String> {
    let header = ["mode", "cpus", "setting", "kernel", "release", "role", "instructions_per_kib", "least", "greatest"];
    let mut rows = vec![header.map(str::to_owned)];
    for line in &history.lines {
        for point in &line.points {
            let kernel = history.kernels.get(point.kernel).context("a point has a kernel")?;
            let sums = [("without-scheduling", point.without_scheduling), ("total", point.total)];
            let roles = point.roles.iter().map(|(role, span)| (roles::by_id(*role).id.as_str(), *span));
            for (role, CountSpan { value, low, high, .. }) in sums.into_iter().chain(roles) {
                let [mode, setting] = [&line.mode, &line.setting].map(String::clone);
                let [label, release] = [&kernel.label, &kernel.release].map(String::clone);
                let [value, low, high] = [value, low, high].map(|number| format!("{number:.4}"));
                rows.push([mode, line.cpus.to_string(), setting, label, release, role.to_owned(), value, low, high]);
            }
        }
    }
    Ok(csv_text(rows))
}
