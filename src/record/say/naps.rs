//! What a sleep on a timer is: how often, for how long, and the command that a script has for it.

use crate::record::model::forks::by_program;
use crate::record::say::limits;
use crate::report::number::time;
use crate::result::{Document, WaitReason};
use crate::util::text::{clean, counted};
use std::collections::BTreeMap;

/// The program that only sleeps.
pub(super) const SLEEP: &str = "sleep";

/// From this part of its life on a CPU on, a process works while one of its threads sleeps.
const WORKS: f64 = 0.5;

/// Of fewer sleeps, the mean says less than their sum.
const FEW: u64 = 5;

/// The part of a process that sleeps on a timer in more words: `` (`sleep 0.1`, started 5 times by `run.sh`)`` of that
/// program, with the names in `labels`; ` (12 times, 50.0 ms each)` of one that sleeps itself, by the mean. Empty if there is
/// nothing to add.
pub(crate) fn naps(recording: &Document, labels: &[String], at: usize) -> String {
    let process = &recording.recorded[at];
    if limits::rate_limit(process).is_some() {
        return String::new();
    }
    if process.name == SLEEP {
        return commands(recording, labels, at).unwrap_or_default();
    }
    match process.waits.get(&WaitReason::Timer) {
        Some(waits) if waits.count > 1 => {
            let (all, times) = (waits.ns as f64 / 1e9, counted(waits.count, "time"));
            // A few may be of different lengths.
            if waits.count < FEW {
                return format!(" ({times}, {} in all)", time(all));
            }
            let each = time(all / waits.count as f64);
            // As the scheduler of Go does, to see whether another one has run for too long.
            if process.has_threads() && process.cpu_ns as f64 >= WORKS * process.lived_ns as f64 {
                return format!(" ({times}, {each} each, while other threads of it are on a CPU)");
            }
            // They sleep at the same time.
            if process.has_threads() {
                return format!(" ({times}, {each} each, in several threads)");
            }
            format!(" ({times}, {each} each)")
        }
        _ => String::new(),
    }
}

/// The command line of the `sleep` in row `at`, if most that its starter has of it have that.
fn commands(recording: &Document, labels: &[String], at: usize) -> Option<String> {
    let all = &recording.recorded;
    let line = |at: usize| clean(&all[at].args.join(" "));
    let rows = by_program(all, 0..all.len()).into_iter().find(|(_, rows)| rows.contains(&at));
    let (starter, rows) = rows.map_or((None, vec![at]), |((starter, _), rows)| (labels.get(starter), rows));
    let times: u64 = rows.iter().map(|at| all[*at].pids.len() as u64).sum();
    // A row has the line of one, and how many have the same.
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    rows.iter().for_each(|at| *lines.entry(line(*at)).or_default() += all[*at].same_args.max(1));
    let (most, same) = lines.into_iter().filter(|(line, _)| line.contains(' ')).max_by_key(|(_, same)| *same)?;
    // Others can be fewer, and longer.
    let slept: u64 = rows.iter().filter_map(|at| all[*at].waits.get(&WaitReason::Timer)).map(|wait| wait.ns).sum();
    let seconds = most.rsplit(' ').next().and_then(|word| word.parse::<f64>().ok());
    let is_most = seconds.is_some_and(|seconds| 2.0 * seconds * same as f64 * 1e9 > slept as f64);
    let what = match same {
        same if same >= times => format!("`{most}`"),
        same if 2 * same > times && is_most => format!("mostly `{most}`"),
        _ => "different times".to_owned(),
    };
    let often = if times > 1 { format!(" {}", counted(times, "time")) } else { String::new() };
    let by = starter.map_or_else(String::new, |name| format!(", started{often} by `{name}`"));
    Some(format!(" ({what}{by})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::model::stages::tests::shell;
    use crate::result::WaitTotal;

    #[test]
    fn the_command_that_sleeps_is_named_with_who_starts_it() {
        let mut recording = shell(["sh", "sleep", "sleep"], &[]);
        for (pid, process) in (1..).zip(&mut recording.recorded) {
            (process.pids, process.execs) = (vec![pid], 1);
        }
        let labels = ["run.sh", "sleep (2)", "sleep (3)"].map(str::to_owned);
        let said = |recording: &Document| naps(recording, &labels, 1);
        assert_eq!(said(&recording), "");
        let words = |words: &str| words.split(' ').map(str::to_owned).collect();
        recording.recorded[1].args = words("sleep 0.1");
        assert_eq!(said(&recording), " (`sleep 0.1`)");
        recording.recorded[1].started_by = Some(0);
        assert_eq!(said(&recording), " (`sleep 0.1`, started by `run.sh`)");
        (recording.recorded[2].args, recording.recorded[2].started_by) = (words("sleep 0.1"), Some(0));
        assert_eq!(said(&recording), " (`sleep 0.1`, started 2 times by `run.sh`)");
        recording.recorded[2].args = words("sleep 3");
        assert_eq!(said(&recording), " (different times, started 2 times by `run.sh`)");
        (recording.recorded[2].pids, recording.recorded[2].same_args) = (vec![3, 4, 5], 3);
        assert_eq!(said(&recording), " (mostly `sleep 3`, started 4 times by `run.sh`)");
    }

    #[test]
    fn who_sleeps_itself_has_the_number_and_the_mean_of_its_sleeps() {
        let mut recording = shell(["python3"], &[]);
        let mut sleeps = |count| {
            recording.recorded[0].waits.insert(WaitReason::Timer, WaitTotal { ns: 2_000_000, count });
            naps(&recording, &["python3".to_owned()], 0)
        };
        assert_eq!([sleeps(1), sleeps(40)], ["".to_owned(), " (40 times, 50.0 µs each)".to_owned()]);
    }
}
