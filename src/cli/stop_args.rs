//! Flags that stop a measurement by precision or time, for `run`, `compare` and `sweep`.

use super::workload_args::parse_duration;
use crate::experiment::StopRule;

/// When to stop measuring.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct StopArgs {
    /// Measure until half the width of the 95 % CI is below this percentage of the median, such as 2% [limit:
    /// --max-time, default 10 min]
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    until: Option<f64>,
    /// Stop before a round of runs that would end after this time, such as 60s [default: no limit; 10 min with --until]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    max_time: Option<u64>,
}

impl StopArgs {
    pub(crate) fn rule(&self) -> StopRule {
        StopRule { until: self.until, max_time_ns: self.max_time }
    }

    /// Set what was given.
    pub(crate) fn apply(&self, rule: &mut StopRule) {
        rule.until = self.until.or(rule.until);
        rule.max_time_ns = self.max_time.or(rule.max_time_ns);
    }
}

/// `2%` as 0.02.
pub(super) fn parse_percent(text: &str) -> Result<f64, String> {
    let number =
        text.strip_suffix('%').ok_or_else(|| format!("'{text}' is not a percentage: use a form such as 2%"))?;
    match number.trim().parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err(format!("'{text}' is not a percentage above 0% and up to 100%, such as 2%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages() {
        assert_eq!(parse_percent("2%"), Ok(0.02));
        assert_eq!(parse_percent("0.5 %"), Ok(0.005));
        for wrong in ["2", "0%", "-1%", "101%", "x%", "%", "NaN%"] {
            assert!(parse_percent(wrong).is_err(), "{wrong}");
        }
    }
}
