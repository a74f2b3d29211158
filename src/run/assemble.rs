//! Make the document from raw values: medians, intervals, shares, costs, warnings.

use super::gather::Gathered;
use super::measure::{Measured, Slot};
use super::{Setting, cost};
use crate::collect::{Context, targets};
use crate::kernel::resolve::Resolution;
use crate::profile::{Folded, Moved, ProcessName, RoleShare, Unit, attribute, attribution};
use crate::result::{
    Attribution, Collector, Document, Environment, ExecutedOn, KernelInfo, MeasuredTarget, Outcome, PairRecord,
    ProcessTotals, Request, SCHEMA, Throughput, Warning,
};
use crate::util::stats;
use crate::util::text::factor;
use crate::util::warning::WarningCode;
use crate::workload;
use anyhow::Result;

/// A collector that hooks every call and costs more than this, in percent, gives no shares, because most of the time
/// in its profile would be its own. Its calls are still counted.
const HIGHEST_COST_OF_SHARES: f64 = 100.0;

/// Make the document and the profiles.
pub fn outcome(
    request: &Request,
    setting: &Setting<'_>,
    context: &Context,
    mut environment: Environment,
    measured: Measured,
) -> Result<Outcome> {
    let emulated = setting.executed_on == ExecutedOn::Tcg;
    let alone: Vec<&PairRecord> = pairs_under(&measured, None).collect();
    let throughput = throughput(&alone, emulated);
    let processes = median_pair(&alone).map(|pair| pair.processes.clone()).unwrap_or_default();
    if let (Some(writer), Some(reader)) = (processes.first().cpu, processes.last().cpu) {
        environment.topology = workload::cpus::relation(writer, reader).map(str::to_owned);
    }
    let attribution = attribution(&measured, emulated);
    let mut symbols = context.resolutions();
    for symbol in &mut symbols {
        settle(symbol, &measured.resolutions);
    }
    let functions: Vec<_> = measured.gathered.values().flat_map(|gathered| gathered.functions.clone()).collect();
    for symbol in symbols.iter_mut().filter(|symbol| symbol.hits.is_none()) {
        let hits = |f: &&crate::result::FunctionCalls| Some(&f.symbol) == symbol.symbol.as_ref();
        let counted: Vec<_> = functions.iter().filter(hits).collect();
        if !counted.is_empty() {
            symbol.hits = Some(counted.iter().map(|f| f.calls).sum());
        }
    }
    let report = |(kind, gathered): (&Collector, &Gathered)| gathered.report(*kind, cost_of(*kind, &measured));
    let collectors = measured.gathered.iter().map(report).collect();
    let mut warnings = warnings(request, &measured, emulated);
    warnings.sort();
    warnings.dedup();
    let unit = measured_unit(&measured);
    let profiles = measured.gathered.iter().flat_map(|(kind, gathered)| gathered.profiles(*kind)).collect();
    let document = Document {
        schema: SCHEMA.to_owned(),
        version: crate::util::build::version().to_owned(),
        started: String::new(),
        command: request.command.clone(),
        mode: request.mode.clone(),
        target: MeasuredTarget::Pair { workload: request.workload.clone() },
        kernel: KernelInfo::running(),
        executed_on: setting.executed_on,
        unit,
        environment,
        memcg: (setting.executed_on != ExecutedOn::Hardware).then_some(request.memcg),
        throughput,
        processes,
        attribution,
        functions,
        symbols,
        collectors,
        runs: measured.pairs.into_iter().map(|(_, record)| record).collect(),
        warnings,
        ending: (!request.stop.is_none()).then_some(measured.ending),
        ..Document::default()
    };
    Ok(Outcome { document, profiles, ..Outcome::default() })
}

fn pairs_under(measured: &Measured, collector: Option<Collector>) -> impl Iterator<Item = &PairRecord> {
    measured.pairs.iter().filter(move |(slot, _)| slot.collector == collector).map(|(_, record)| record)
}

fn throughput(alone: &[&PairRecord], emulated: bool) -> Throughput {
    if emulated {
        return Throughput::default();
    }
    let runs: Vec<f64> = alone.iter().map(|pair| pair.processes.gib_s()).collect();
    let mad = stats::mad(&runs);
    let median = stats::median(&runs);
    let outliers = u32::try_from(stats::outliers(&runs)).unwrap_or(u32::MAX);
    Throughput { median_gib_s: median, ci95: stats::median_ci95(&runs), mad_gib_s: mad, runs, outliers }
}

/// Prefer functions that were called over those predicted from symbols.
fn settle(symbol: &mut Resolution, seen: &[Resolution]) {
    let Some(seen) = seen.iter().find(|seen| seen.role == symbol.role) else { return };
    if seen.hits.is_some_and(|hits| hits > 0) && seen.symbol != symbol.symbol {
        *symbol = seen.clone();
    } else if seen.symbol == symbol.symbol {
        symbol.hits = seen.hits;
        symbol.rejected.clone_from(&seen.rejected);
    }
}

/// The run with the median time per byte.
fn median_pair<'a>(alone: &[&'a PairRecord]) -> Option<&'a PairRecord> {
    stats::median_by(alone.iter().copied(), |pair| cost::ns_per_byte(pair).unwrap_or(f64::INFINITY))
}

fn attributed(measured: &Measured) -> Option<(Collector, &Gathered)> {
    Collector::those(|facts| facts.has_shares).find_map(|kind| {
        let gathered = measured.gathered.get(&kind).filter(|_| too_costly(kind, measured).is_none())?;
        gathered.stacks.values().any(|stacks| !stacks.is_empty()).then_some((kind, gathered))
    })
}

/// The cost in percent of a collector that is too expensive for shares. Sampling hooks no calls.
fn too_costly(kind: Collector, measured: &Measured) -> Option<f64> {
    let (cost, _) = cost_of(kind, measured).filter(|_| kind != Collector::Sample)?;
    (cost > HIGHEST_COST_OF_SHARES).then_some(cost)
}

fn measured_unit(measured: &Measured) -> Unit {
    attributed(measured).map_or(Unit::Samples, |(_, gathered)| gathered.unit)
}

fn attribution(measured: &Measured, emulated: bool) -> Attribution {
    let Some((kind, gathered)) = attributed(measured) else {
        return Attribution::default();
    };
    let shares = |process: ProcessName, stacks: &Folded| {
        let pairs: Vec<&ProcessTotals> =
            pairs_under(measured, Some(kind)).map(|pair| pair.processes.of(process)).collect();
        let moved = Moved {
            bytes: pairs.iter().map(|p| p.bytes).sum(),
            calls: pairs.iter().map(|p| p.calls).sum(),
            // The time of a truncated call tree covers only a part of the bytes.
            cpu_ns: (!emulated && (gathered.unit == Unit::Samples || gathered.lost == 0))
                .then(|| pairs.iter().map(|p| p.user_ns + p.system_ns).sum()),
        };
        let mut shares = attribute(stacks, gathered.unit, gathered.skid, &moved);
        if let Some(pairs) = gathered.by_pair.get(process) {
            attribution::between_pairs(&mut shares, pairs);
        }
        count_calls(&mut shares, measured, process);
        shares
    };
    let attributed = gathered.stacks.of_target().filter(|(_, stacks)| !stacks.is_empty());
    Attribution {
        collector: kind.name().to_owned(),
        processes: attributed.map(|(process, stacks)| (process, shares(process, stacks))).collect(),
        others: None,
    }
}

/// Add the calls of probed functions to their roles.
fn count_calls(shares: &mut [RoleShare], measured: &Measured, process: ProcessName) {
    let Some(gathered) = measured.gathered.get(&Collector::Kprobe) else { return };
    let bytes: u64 = pairs_under(measured, Some(Collector::Kprobe)).map(|pair| pair.processes.of(process).bytes).sum();
    for share in shares {
        share.calls_per_mib = targets::calls_per_mib(share.role, gathered.functions.iter(), process, bytes);
    }
}

/// The cost of `kind` in percent of the run time, and its interval.
fn cost_of(kind: Collector, measured: &Measured) -> Option<(f64, Option<[f64; 2]>)> {
    let of_block = |wanted: Slot| measured.pairs.iter().find(|(slot, _)| *slot == wanted).map(|(_, record)| record);
    let compared: Vec<(f64, f64)> = measured
        .pairs
        .iter()
        .filter(|(slot, _)| slot.collector == Some(kind))
        .filter_map(|(slot, watched)| {
            let alone = of_block(Slot { collector: None, ..*slot })?;
            Some((cost::ns_per_byte(alone)?, cost::ns_per_byte(watched)?))
        })
        .collect();
    cost::percent(&compared)
}

fn warnings(request: &Request, measured: &Measured, emulated: bool) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = measured.gathered.values().flat_map(|g| g.warnings.clone()).collect();
    let mut warn = |code: WarningCode, message: String, action: &str| {
        warnings.push(Warning { code, message, action: action.into() });
    };
    if emulated {
        warn(
            WarningCode::Emulated,
            "emulated by TCG: throughput is not available, and the costs of collectors are in emulated time".into(),
            "for throughput use --accel kvm, or boot this kernel",
        );
    }
    for (kind, gathered) in &measured.gathered {
        let traced = kind.facts().has_shares && gathered.stacks.values().any(|stacks| !stacks.is_empty());
        if let Some(cost) = too_costly(*kind, measured).filter(|_| traced) {
            let by = factor(1.0 + cost / 100.0)
                .map_or_else(|| format!("by {cost:.0} %"), |times| format!("to {times} its time"));
            let what = format!("{} slowed the workload {by}, so its shares by role are not shown", kind.name());
            warn(WarningCode::TooCostly, what, "use --collect sample for shares");
        }
        if gathered.lost > 0 {
            // Details are in the collector's own warnings.
            let what = kind.facts().unit;
            warn(
                WarningCode::Lost,
                format!("{} lost {} {what}", kind.name(), gathered.lost),
                "move fewer bytes in each window",
            );
        }
    }
    let mut broken = 0;
    for (_, pair) in &measured.pairs {
        for warning in workload::caveats(&request.workload, &pair.processes) {
            let verify = warning.code == WarningCode::VerifyFailed;
            broken += usize::from(verify);
            if !(verify && broken > 1 || warnings.contains(&warning)) {
                warnings.push(warning);
            }
        }
    }
    if let Some(first) = warnings.iter_mut().find(|warning| warning.code == WarningCode::VerifyFailed) {
        first.message += &format!(" (in {broken} of {} pairs)", measured.pairs.len());
    }
    warnings
}
