//! Programs that are to be slow: an option limits their rate.

use crate::result::RecordedProcess;

/// Such programs, with the letters of the option and its long name. Those without either always limit a rate.
const LIMITERS: [(&str, &str, &str); 7] = [
    ("pv", "L", "--rate-limit"),
    ("mbuffer", "rR", "--max"),
    ("cstream", "t", ""),
    ("throttle", "", ""),
    ("curl", "", "--limit-rate"),
    ("wget", "", "--limit-rate"),
    ("rsync", "", "--bwlimit"),
];

/// The option by which a process limits its rate, with its value, or its name if that is all it does.
pub(crate) fn rate_limit(process: &RecordedProcess) -> Option<String> {
    let (name, letters, long) = LIMITERS.iter().find(|(name, ..)| *name == process.name)?;
    if letters.is_empty() && long.is_empty() {
        return Some((*name).to_owned());
    }
    let at = process.args.iter().skip(1).position(|word| match word.strip_prefix("--") {
        Some(_) => !long.is_empty() && word.starts_with(long),
        None => word.starts_with('-') && word.contains(|letter| letters.contains(letter)),
    })?;
    let mut words = process.args.iter().skip(1 + at);
    let word = words.next()?;
    // Its value is in the same word, or is the next one.
    let apart = match word.starts_with("--") {
        true => !word.contains('='),
        false => word.ends_with(|letter| letters.contains(letter)),
    };
    Some(match words.next().filter(|_| apart) {
        Some(value) => format!("{word} {value}"),
        None => word.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_limits_a_rate_is_found_with_its_value() {
        let limit = |line: &str| {
            let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
            rate_limit(&RecordedProcess { name: args[0].clone(), args, ..RecordedProcess::default() })
        };
        let found = [
            ("pv -q -L 5M", "-L 5M"),
            ("pv -qL5M f", "-qL5M"),
            ("pv --rate-limit=1k", "--rate-limit=1k"),
            ("curl --limit-rate 100k x", "--limit-rate 100k"),
            ("throttle -k 5", "throttle"),
        ];
        for (line, expected) in found {
            assert_eq!(limit(line).as_deref(), Some(expected), "{line}");
        }
        for line in ["pv -q", "pv", "cat -L", "curl -L x", "rsync -r a b"] {
            assert_eq!(limit(line), None, "{line}");
        }
    }
}
