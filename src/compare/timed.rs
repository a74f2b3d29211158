//! Verdicts on measured times, from separate runs, several boots and a noise floor.

use super::input::Boots;
use super::model::{Verdict, Word};
use crate::util::decision::{Decision, decide};
use crate::util::stats;
use crate::util::text::factor;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};

/// Smaller changes count as `same`, even if they are certain.
pub(crate) const MINIMUM_EFFECT: f64 = 0.02;
/// Minimum distance of the whole interval from no change, for `faster` or `slower`.
const CERTAIN_EFFECT: f64 = MINIMUM_EFFECT / 2.0;
/// Minimum change, in multiples of the noise floor. Of 60 real A/A trials on a noisy machine, three met or nearly met
/// all other conditions, with 1.2, 1.5 and 1.8 times the floor (docs/findings.md).
const TIMES_THE_FLOOR: f64 = 2.0;
/// Runs that a column needs for a verdict.
pub const MINIMUM_PAIRS: usize = 10;
/// Boots that a kernel needs, because the addresses of code and data change with each boot.
pub(crate) const MINIMUM_BOOTS: usize = 3;
/// Level of significance after Holm's correction.
const ALPHA: f64 = 0.05;
/// Runs of a column from which its median has an interval: resampled single runs are all the same.
const RUNS_OF_AN_INTERVAL: usize = 3;
const RESAMPLES: usize = 4_000;
/// Predictions of more runs are not made.
const MOST_MORE: f64 = 100_000.0;
/// More runs than this are impractical.
const HOPELESS: usize = 10_000;

/// The evidence about two columns, before the correction for the number of verdicts.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// Without what the correction decides: word, text, and what depends on them.
    pub verdict: Verdict,
    /// Whether each column needs [`MINIMUM_BOOTS`]. Not if all ran interleaved in one boot.
    pub(crate) boots_matter: bool,
}

/// The noise floor: how far a ratio of medians is from 1 although nothing differs.
#[derive(Debug, Clone, PartialEq)]
pub struct Noise {
    /// As a fraction of 1.
    pub floor: f64,
    pub from: String,
}

/// Collect the evidence. `None` if a column has no run.
pub fn evidence(
    before: &Boots,
    after: &Boots,
    noise: Option<Noise>,
    boots_matter: bool,
    seed: u64,
) -> Option<Evidence> {
    let (a, b): (Vec<f64>, Vec<f64>) = (before.concat(), after.concat());
    let (old, new) = (stats::median(&a)?, stats::median(&b)?);
    let p = stats::mann_whitney(&a, &b)?;
    if old <= 0.0 {
        return None;
    }
    let enough = a.len().min(b.len()) >= RUNS_OF_AN_INTERVAL;
    let verdict = Verdict {
        before: old,
        after: new,
        delta: new - old,
        ratio: new / old,
        ci95: if enough { Some(ratio_ci95(before, after, seed)?) } else { None },
        p: Some(p),
        pairs: [a.len(), b.len()],
        boots: [before.len(), after.len()],
        noise_floor: noise.as_ref().map(|noise| noise.floor),
        noise_from: noise.map_or_else(|| "too few runs".to_owned(), |noise| noise.from),
        ..Verdict::default()
    };
    Some(Evidence { verdict, boots_matter })
}

/// 95 % percentile bootstrap of the ratio of medians, resampling boots first and runs within them: runs of one boot
/// are similar, so boots are the samples (Davison and Hinkley, Bootstrap Methods and their Application, 3.8).
fn ratio_ci95(before: &Boots, after: &Boots, seed: u64) -> Option<[f64; 2]> {
    if before.len() == 1 && after.len() == 1 {
        return stats::ratio_of_medians(&after[0], &before[0], seed).map(|ratio| ratio.ci95);
    }
    let mut random = SmallRng::seed_from_u64(seed);
    let mut resample = |boots: &Boots| -> Option<f64> {
        let mut values = Vec::new();
        for _ in 0..boots.len() {
            let boot = boots.get(random.random_range(0..boots.len()))?;
            for _ in 0..boot.len() {
                values.extend(boot.get(random.random_range(0..boot.len())));
            }
        }
        stats::median(&values)
    };
    let mut ratios = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let (old, new) = (resample(before)?, resample(after)?);
        ratios.push(new / old);
    }
    ratios.sort_by(f64::total_cmp);
    Some([*ratios.get(RESAMPLES / 40)?, *ratios.get(RESAMPLES - 1 - RESAMPLES / 40)?])
}

/// The noise floor from a control: the same column measured a second time, interleaved with the rest.
pub(crate) fn noise_of_control(baseline: &Boots, control: &Boots, seed: u64) -> Option<Noise> {
    let (a, b) = (stats::median(&baseline.concat())?, stats::median(&control.concat())?);
    let within = noise_within(baseline, seed)?;
    Some(Noise {
        floor: (b / a - 1.0).abs().max(within.floor),
        from: format!("A/A control: {} additional runs of the first column, interleaved", control.concat().len()),
    })
}

/// The noise floor from one column: its runs split into random halves (95th percentile of the ratios' distance from
/// 1), and its boots compared with each other.
pub(crate) fn noise_within(baseline: &Boots, seed: u64) -> Option<Noise> {
    let mut pairs = baseline.concat();
    if pairs.len() < 4 {
        return None;
    }
    let mut random = SmallRng::seed_from_u64(seed);
    let mut strays: Vec<f64> = Vec::new();
    for _ in 0..400 {
        pairs.shuffle(&mut random);
        let (one, other) = pairs.split_at(pairs.len() / 2);
        strays.push((stats::median(one)? / stats::median(other)? - 1.0).abs());
    }
    strays.sort_by(f64::total_cmp);
    // Halves are noisier than the whole by the square root of two.
    let halves = strays[strays.len() * 95 / 100] / std::f64::consts::SQRT_2;
    let medians: Vec<f64> = baseline.iter().filter_map(|boot| stats::median(boot)).collect();
    let mut boots: f64 = 0.0;
    for (index, one) in medians.iter().enumerate() {
        for other in &medians[index + 1..] {
            boots = boots.max((one / other - 1.0).abs());
        }
    }
    // The median over b boots is less noisy than one boot's, by about the square root of b.
    let boots = boots / (medians.len().max(1) as f64).sqrt();
    let from = match medians.len() {
        0 | 1 => "A/A: random halves of the first column's runs".to_owned(),
        n => format!("A/A: random halves of the first column's runs, and its {n} boots compared with each other"),
    };
    Some(Noise { floor: halves.max(boots), from })
}

/// Derive verdicts from evidence, with Holm's correction over all of them.
pub fn verdicts(evidence: &[Option<Evidence>]) -> Vec<Verdict> {
    let known = || evidence.iter().flatten();
    let mut corrected = stats::holm(&known().filter_map(|e| e.verdict.p).collect::<Vec<_>>()).into_iter();
    let one =
        |evidence: &Option<Evidence>| match evidence.as_ref().zip(evidence.as_ref().and_then(|_| corrected.next())) {
            Some((evidence, p_holm)) => verdict(evidence, p_holm),
            None => Verdict::none("undecided: a column has no unprofiled runs: use --runs 10 or more"),
        };
    evidence.iter().map(one).collect()
}

fn verdict(Evidence { verdict: e, boots_matter }: &Evidence, p_holm: f64) -> Verdict {
    let effect = (e.ratio - 1.0).abs();
    let few_pairs = e.pairs.iter().any(|n| *n < MINIMUM_PAIRS);
    let few_boots = *boots_matter && e.boots.iter().any(|n| *n < MINIMUM_BOOTS);
    let above_noise = e.noise_floor.is_some_and(|floor| effect > TIMES_THE_FLOOR * floor);
    // Without the other evidence, no interval says that something changed.
    let differs = p_holm < ALPHA && above_noise && effect >= MINIMUM_EFFECT;
    let floor = if differs { CERTAIN_EFFECT } else { f64::INFINITY };
    let decision = match e.ci95 {
        Some(ends) if !few_pairs && !few_boots => decide(ends.map(|end| end - 1.0), floor, MINIMUM_EFFECT),
        _ => Decision::Undecided,
    };
    let word = Word::of_times(decision);
    let more_runs = (word == Word::Undecided).then(|| more_runs(e, effect));
    let interval = interval(e, p_holm);
    let text = match word {
        Word::Same => format!("same within {:.0} % ({interval})", MINIMUM_EFFECT * 100.0),
        Word::Undecided => format!("undecided: {} ({interval})", what_is_missing(e, few_boots, more_runs.unwrap_or(0))),
        _ => match factor(e.ratio) {
            Some(times) => format!("{}: {times} the time ({interval})", word.text()),
            None => format!("{} by {:.1} % ({interval})", word.text(), effect * 100.0),
        },
    };
    Verdict { word, p_holm: Some(p_holm), more_runs, text, ..e.clone() }
}

/// `ratio 0.931, 95 % CI 0.925 to 0.940; p < 0.001; noise floor 1.2 %`, as far as it is known.
fn interval(e: &Verdict, p_holm: f64) -> String {
    let ratio = format!("ratio {:.3}", e.ratio);
    let Some([low, high]) = e.ci95 else { return format!("{ratio}, of too few runs for an interval") };
    let p = if p_holm < 0.001 { "< 0.001".to_owned() } else { format!("= {p_holm:.3}") };
    let noise = e
        .noise_floor
        .map_or_else(|| "noise floor unknown".to_owned(), |floor| format!("noise floor {:.1} %", floor * 100.0));
    format!("{ratio}, 95 % CI {low:.3} to {high:.3}; p {p}; {noise}")
}

fn what_is_missing(e: &Verdict, few_boots: bool, more: usize) -> String {
    let boots = e.boots.iter().min().copied().unwrap_or(0);
    if few_boots {
        return format!(
            "needs {} more boots per kernel, and about {} more runs",
            MINIMUM_BOOTS.saturating_sub(boots),
            more.min(HOPELESS)
        );
    }
    if more > HOPELESS {
        return format!("needs more than {HOPELESS} more runs: measure on a quieter machine");
    }
    format!("needs about {more} more runs")
}

/// Further runs needed per column. The interval narrows with the square root of their number, until it is beyond the
/// effect that must be certain, or within the minimum effect.
fn more_runs(e: &Verdict, effect: f64) -> usize {
    let have = e.pairs.iter().min().copied().unwrap_or(0);
    let Some([low, high]) = e.ci95 else { return MINIMUM_PAIRS.saturating_sub(have).max(2) };
    let half = (high - low) / 2.0;
    let target = if effect >= MINIMUM_EFFECT { effect - CERTAIN_EFFECT } else { MINIMUM_EFFECT - effect }.max(0.002);
    // The noise floor shrinks with the interval.
    let floor = e.noise_floor.unwrap_or(0.0);
    let floor = if effect >= MINIMUM_EFFECT { TIMES_THE_FLOOR * floor / effect } else { 0.0 };
    let wanted = have as f64 * (half / target).max(floor).powi(2) * 1.2;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to a small positive range")]
    let wanted = wanted.clamp(0.0, MOST_MORE).ceil() as usize;
    wanted.max(MINIMUM_PAIRS).saturating_sub(have).max(MINIMUM_PAIRS.saturating_sub(have)).max(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times with 1 % of noise between runs and 0.5 % between boots.
    fn boots(random: &mut SmallRng, centre: f64, boots: usize, pairs: usize) -> Boots {
        let mut normal = |spread: f64| -> f64 {
            let sum: f64 = (0..12).map(|_| random.random::<f64>()).sum();
            (sum - 6.0) * spread
        };
        (0..boots)
            .map(|_| {
                let boot = centre * (1.0 + normal(0.005));
                (0..pairs).map(|_| boot * (1.0 + normal(0.01))).collect()
            })
            .collect()
    }

    fn judge(before: &Boots, after: &Boots, seed: u64) -> Verdict {
        let noise = Some(noise_within(before, seed).unwrap());
        verdicts(&[evidence(before, after, noise, true, seed)]).remove(0)
    }

    #[test]
    fn the_same_kernel_twice_is_never_called_different() {
        for trial in 0..20 {
            let mut random = SmallRng::seed_from_u64(trial);
            let (a, b) = (boots(&mut random, 100.0, 3, 12), boots(&mut random, 100.0, 3, 12));
            let verdict = judge(&a, &b, trial);
            assert!(!matches!(verdict.word, Word::Faster | Word::Slower), "trial {trial}: {}", verdict.text);
        }
    }

    #[test]
    fn five_per_cent_are_found_and_have_the_right_sign() {
        for trial in 0..20 {
            let mut random = SmallRng::seed_from_u64(1000 + trial);
            let (a, b) = (boots(&mut random, 100.0, 3, 12), boots(&mut random, 105.0, 3, 12));
            assert_eq!(judge(&a, &b, trial).word, Word::Slower, "trial {trial}: {}", judge(&a, &b, trial).text);
            assert_eq!(judge(&b, &a, trial).word, Word::Faster);
        }
    }

    #[test]
    fn few_pairs_or_boots_are_inconclusive_and_say_what_is_missing() {
        let mut random = SmallRng::seed_from_u64(3);
        let (a, b) = (boots(&mut random, 100.0, 3, 3), boots(&mut random, 150.0, 3, 3));
        let verdict = judge(&a, &b, 1);
        assert_eq!(verdict.word, Word::Undecided);
        assert!(verdict.more_runs.is_some_and(|n| n >= 1));
        let (a, b) = (boots(&mut random, 100.0, 1, 30), boots(&mut random, 150.0, 1, 30));
        let verdict = judge(&a, &b, 1);
        assert_eq!(verdict.word, Word::Undecided);
        assert!(verdict.text.contains("2 more boots"), "{}", verdict.text);
    }

    #[test]
    fn one_run_has_no_interval() {
        let [a, b] = [100.0, 80.0].map(|time| vec![vec![time]]);
        let verdict = verdicts(&[evidence(&a, &b, noise_within(&a, 1), false, 1)]).remove(0);
        assert_eq!(verdict.text, "undecided: needs about 9 more runs (ratio 0.800, of too few runs for an interval)");
        assert_eq!((verdict.ci95, verdict.noise_floor), (None, None));
    }

    #[test]
    fn a_certain_change_under_the_minimum_effect_is_the_same() {
        let mut random = SmallRng::seed_from_u64(4);
        let narrow = |random: &mut SmallRng, centre: f64| -> Boots {
            (0..3).map(|_| (0..100).map(|_| centre * (1.0 + random.random::<f64>() / 1000.0)).collect()).collect()
        };
        let (a, b) = (narrow(&mut random, 100.0), narrow(&mut random, 101.0));
        let verdict = judge(&a, &b, 5);
        assert!(verdict.p_holm.is_some_and(|p| p < 0.001));
        assert_eq!(verdict.word, Word::Same);
    }

    #[test]
    fn holm_makes_many_verdicts_stricter() {
        let mut random = SmallRng::seed_from_u64(6);
        let (a, b) = (boots(&mut random, 100.0, 3, 10), boots(&mut random, 103.0, 3, 10));
        let one = evidence(&a, &b, noise_within(&a, 1), true, 1);
        let alone = verdicts(std::slice::from_ref(&one)).remove(0);
        let among = verdicts(&vec![one; 50]).remove(0);
        assert!(among.p_holm > alone.p_holm);
    }
}
