//! The kernels that must be built to split a change by cause.

use crate::compare::causes::{self, CauseColumns};
use crate::compare::model::{CauseNames, CausePart, Comparison};
use crate::compare::plan::{self, ColumnPlan};
use crate::compare::{Against, CompareOptions, Compared, Input, compare};
use crate::kernel::info::compiler_in;
use crate::util::progress;
use crate::util::text::counted;
use crate::util::usage::{OrUsage as _, UsageError};
use crate::vm::compile::{self, BuildRequest, KernelOrigin};
use crate::vm::guest::check_programs;
use crate::vm::store::{CachedKernel, KernelCache};
use anyhow::{Context as _, Result, ensure};

/// In how many orders source, configuration and compiler are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumMessage, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum CauseOrders {
    /// Two opposite orders: at most six builds
    Two,
    /// All six orders: at most eight builds
    All,
    /// As `two`, and then the options that change the counts: about three builds for each of them
    Options,
}

/// The compiler's bit of a corner.
const COMPILER: usize = 4;

/// Seconds of a build on two CPUs, if nothing was built before (docs/performance.md).
const SECONDS: u64 = 600;

/// The kernels of a split, built, and the columns that count them.
#[derive(Debug)]
pub struct CausePlan {
    /// In addition to the two columns that are compared.
    pub columns: Vec<ColumnPlan>,
    layout: CauseColumns,
}

/// Build the kernels between those of `compared`. Says first how many, and how long it takes.
pub fn prepare(compared: &[ColumnPlan], orders: CauseOrders, jobs: usize) -> Result<CausePlan> {
    let [before, after] = compared else {
        return Err(UsageError::new("--causes explains the change between two kernels: give --kernel twice").into());
    };
    let kernel = |column: &ColumnPlan| {
        column.options.kernel.clone().context(UsageError::new("--causes needs two kernels: give --kernel twice"))
    };
    let names = [kernel(before)?, kernel(after)?];
    let same = |column: &ColumnPlan| {
        let mut options = column.options.clone();
        options.kernel = None;
        options
    };
    ensure!(
        same(before) == same(after) && names[0] != names[1],
        UsageError::new("--causes: only the kernels may differ between the two columns")
    );
    let cache = KernelCache::open()?;
    let origin = |name: &str| KernelOrigin::of(&cache, name).context("--causes");
    let origins = [origin(&names[0])?, origin(&names[1])?];
    let [from, to] = &origins;
    ensure!(
        from.compiler.target() == to.compiler.target(),
        UsageError::new(
            "--causes: the kernels are of two processors, whose instructions cannot be compared: give two kernels of one"
        )
    );
    let differs = [
        from.source != to.source,
        (&from.base, &from.settings) != (&to.base, &to.settings),
        from.compiler != to.compiler || from.compiler_shown != to.compiler_shown,
    ];
    let corners = causes::needed(differs, orders == CauseOrders::All);
    let requests: Vec<BuildRequest> = corners.iter().map(|corner| request(*corner, &origins, jobs)).collect();
    let built = build_all(&cache, &requests)?;
    let labels = names.clone();
    let shown = |corner: usize| {
        let of = |bit: usize| labels[usize::from(corner & (1 << bit) != 0)].as_str();
        let changing = CausePart::ALL.iter().enumerate().filter(|(bit, _)| differs[*bit]);
        let parts: Vec<String> = changing.map(|(bit, part)| format!("{} {}", part.name(), of(bit))).collect();
        parts.join(", ")
    };
    let mut columns = Vec::new();
    let mut place: [Option<usize>; 8] = [None; 8];
    for (corner, kernel) in corners.iter().zip(&built) {
        let mut column = before.clone();
        column.options.kernel = Some(kernel.release.clone());
        column.image = plan::image(&kernel.release);
        column.label = Some(shown(*corner));
        place[*corner] = Some(compared.len() + columns.len());
        columns.push(column);
    }
    let place: [Option<usize>; 8] = std::array::from_fn(|corner| place[causes::changed(corner, differs)]);
    // A kernel that pipeprof built is its own corner.
    let mut images = [0, 1];
    for (side, corner) in [(0, 0), (1, 7)] {
        let release = cache.find(&names[side])?.map(|kernel| kernel.release);
        let same = place[corner].filter(|column| columns[*column - compared.len()].options.kernel == release);
        images[side] = same.unwrap_or(side);
    }
    // Another Debian may have a newer compiler by now than the one that built the kernel.
    let compiler = |side: usize| {
        let is_of_side = |corner: &usize| usize::from(corner & COMPILER != 0) == side;
        let kernel = corners.iter().zip(&built).find(|(corner, _)| is_of_side(corner)).map(|(_, kernel)| kernel);
        let used = kernel.and_then(|kernel| compiler_in(&kernel.build.as_ref()?.compiler));
        let stated = &origins[side].compiler_shown;
        used.filter(|used| used != stated).map_or_else(|| stated.clone(), |used| format!("{used} for {stated}"))
    };
    let texts = |of: fn(&KernelOrigin) -> &str| (of(from).to_owned(), of(to).to_owned());
    let differing = CausePart::ALL
        .into_iter()
        .zip(differs)
        .filter(|(_, differs)| *differs)
        .map(|(part, _)| {
            let (before, after) = match part {
                CausePart::Source => texts(|origin| origin.source_shown.as_str()),
                CausePart::Configuration => texts(|origin| origin.configuration_shown.as_str()),
                CausePart::Compiler => (compiler(0), compiler(1)),
            };
            CauseNames { part, before, after }
        })
        .collect();
    Ok(CausePlan { columns, layout: CauseColumns { corners: place, images, labels: names, differing } })
}

/// What to build for a corner.
fn request(corner: usize, origins: &[KernelOrigin; 2], jobs: usize) -> BuildRequest {
    let of = |bit: usize| &origins[usize::from(corner & (1 << bit) != 0)];
    BuildRequest {
        source: of(0).source.clone(),
        base: of(1).base.clone(),
        settings: of(1).settings.clone(),
        compiler: of(2).compiler.clone(),
        name: None,
        jobs,
        is_lenient: true,
    }
}

/// Build all of them. Says first how many, and how long it takes.
pub(crate) fn build_all(cache: &KernelCache, requests: &[BuildRequest]) -> Result<Vec<CachedKernel>> {
    let mut missing = 0_u64;
    for request in requests {
        missing += u64::from(compile::find(cache, request, &progress::note)?.is_none());
    }
    let what = counted(requests.len() as u64, "build");
    if missing == 0 {
        progress::note(&format!("causes: {what}, all in the cache"));
    } else {
        let known: Vec<u64> = cache.list()?.into_iter().filter_map(|kernel| Some(kernel.build?.seconds)).collect();
        let (each, basis) = match known.iter().sum::<u64>().checked_div(known.len() as u64) {
            Some(mean) => (mean, "as long as builds before"),
            None => (SECONDS, "if each takes 10 minutes, as on two CPUs"),
        };
        let minutes = (missing * each).div_ceil(60);
        progress::note(&format!("causes: {what}, {missing} of them to be made: about {minutes} min, {basis}"));
    }
    // Those of one source one after the other: it is unpacked once.
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|index| requests[*index].source.to_string());
    let mut built: Vec<Option<CachedKernel>> = vec![None; requests.len()];
    for (number, index) in (1..).zip(order) {
        progress::task(&format!("build {number}/{}", requests.len()), false);
        check_programs(requests[index].compiler.target()).or_usage()?;
        let made = compile::build(cache, &requests[index], &progress::note);
        progress::clear();
        built[index] = Some(made?.kernel);
    }
    built.into_iter().map(|kernel| kernel.context("a kernel was not built")).collect()
}

/// The comparison of the first two of `inputs`, with the split that the others allow.
pub fn compared(inputs: &[Input], plan: &CausePlan, options: &CompareOptions) -> Result<Compared> {
    let mut main = compare(inputs.get(..2).context("fewer than two columns have a result")?, options)?;
    let all = compare(inputs, &CompareOptions { against: Against::First, ..options.clone() })?;
    for (section, measures) in all.comparison.sections.iter().zip(&all.measures) {
        let split = causes::split(section, measures, &plan.layout);
        let is_same =
            |other: &&mut crate::compare::model::Section| other.mode == section.mode && other.cpus == section.cpus;
        if let Some(into) = main.comparison.sections.iter_mut().find(is_same) {
            into.causes = split;
        }
    }
    note_missing(&main.comparison);
    Ok(main)
}

fn note_missing(comparison: &Comparison) {
    for section in comparison.sections.iter().filter(|section| section.causes.is_none()) {
        progress::note(&format!("{}: the causes are not known, because a kernel has no count", section.title()));
    }
}
