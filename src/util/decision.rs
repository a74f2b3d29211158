//! What the interval of a change says: the one rule for verdicts, on counts and on times.

/// What is known about a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    More,
    Fewer,
    /// No change larger than the margin.
    Same,
    Undecided,
}

/// Decide from the interval of a change, as a part of the value before. `floor`: smaller changes are never reported as
/// such. `margin`: changes within it do not matter to the user.
#[must_use]
pub(crate) fn decide([low, high]: [f64; 2], floor: f64, margin: f64) -> Decision {
    if low > floor {
        Decision::More
    } else if high < -floor {
        Decision::Fewer
    } else if low >= -margin && high <= margin {
        Decision::Same
    } else {
        Decision::Undecided
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_needs_the_whole_interval() {
        for (interval, expected) in [
            ([0.003, 0.004], Decision::More),
            ([-0.004, -0.003], Decision::Fewer),
            ([0.001, 0.004], Decision::Same),
            ([-0.009, 0.009], Decision::Same),
            ([-0.001, 0.011], Decision::Undecided),
            ([-1.11, 1.11], Decision::Undecided),
            // Certain, and larger than the margin.
            ([0.02, 0.5], Decision::More),
            ([f64::NAN, f64::NAN], Decision::Undecided),
        ] {
            assert_eq!(decide(interval, 0.002, 0.01), expected, "{interval:?}");
        }
    }
}
