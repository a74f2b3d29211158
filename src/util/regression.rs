//! Linear regression with three regressors, and what was known of their coefficients before (Bishop, Pattern Recognition and
//! Machine Learning, 3.3: the posterior is normal, too). Directions in which the data do not vary keep what was known.

/// Regressors.
pub(crate) const REGRESSORS: usize = 3;

/// A value of each.
pub type Regressors = [f64; REGRESSORS];

/// Fitted coefficients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    pub(crate) coefficients: Regressors,
    covariance: [Regressors; REGRESSORS],
    /// The sum of the squares of what is left.
    pub residue: f64,
}

impl Fit {
    /// Fit `values` to `rows`. `known`: mean and standard deviation of each coefficient. `noise`: the least standard deviation
    /// of a value. `None` if a number is not finite.
    pub fn new(rows: &[Regressors], values: &[f64], known: [[f64; 2]; REGRESSORS], noise: f64) -> Option<Self> {
        let mut variance = noise.powi(2);
        let mut fit = Self::given(rows, values, known, variance)?;
        // The variance is that of the residuals of a first fit.
        variance = variance.max(fit.residue / (values.len().max(REGRESSORS + 1) - REGRESSORS) as f64);
        fit = Self::given(rows, values, known, variance)?;
        Some(fit)
    }

    fn given(rows: &[Regressors], values: &[f64], known: [[f64; 2]; REGRESSORS], variance: f64) -> Option<Self> {
        let (mut matrix, mut right) = ([[0.0; REGRESSORS]; REGRESSORS], [0.0; REGRESSORS]);
        for i in 0..REGRESSORS {
            let [mean, deviation] = known[i];
            matrix[i][i] = deviation.powi(-2);
            right[i] = mean * matrix[i][i];
        }
        for (row, value) in rows.iter().zip(values) {
            for i in 0..REGRESSORS {
                right[i] += row[i] * value / variance;
                (0..REGRESSORS).for_each(|j| matrix[i][j] += row[i] * row[j] / variance);
            }
        }
        let covariance = inverse(matrix)?;
        let coefficients = covariance.map(|row| dot(row, right));
        let residue = rows.iter().zip(values).map(|(row, value)| (value - dot(*row, coefficients)).powi(2)).sum();
        coefficients.iter().all(|one| one.is_finite()).then_some(Self { coefficients, covariance, residue })
    }

    /// By how much the value changes with a change of the regressors, and the standard deviation of that.
    pub fn effect(&self, change: Regressors) -> [f64; 2] {
        let variance = dot(change, self.covariance.map(|row| dot(row, change)));
        [dot(change, self.coefficients), variance.max(0.0).sqrt()]
    }
}

fn dot(a: Regressors, b: Regressors) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The inverse of a symmetric, positive matrix (Gauss and Jordan). `None` if it has none.
fn inverse(mut matrix: [Regressors; REGRESSORS]) -> Option<[Regressors; REGRESSORS]> {
    let mut inverse = [[0.0; REGRESSORS]; REGRESSORS];
    (0..REGRESSORS).for_each(|i| inverse[i][i] = 1.0);
    for i in 0..REGRESSORS {
        let pivot = matrix[i][i];
        if !pivot.is_normal() {
            return None;
        }
        matrix[i] = matrix[i].map(|value| value / pivot);
        inverse[i] = inverse[i].map(|value| value / pivot);
        for j in (0..REGRESSORS).filter(|j| *j != i) {
            let factor = matrix[j][i];
            for k in 0..REGRESSORS {
                matrix[j][k] -= factor * matrix[i][k];
                inverse[j][k] -= factor * inverse[i][k];
            }
        }
    }
    inverse.iter().flatten().all(|value| value.is_finite()).then_some(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_decide_where_they_vary_and_what_was_known_elsewhere() {
        let known = [[0.0, 1e6], [-1.0, 0.5], [7.0, 2.0]];
        let rows: Vec<Regressors> = (0..40).map(|i| [32.0, f64::from(i % 5), 0.0]).collect();
        let values: Vec<f64> = rows.iter().map(|row| 3.0 * row[0] + 2.0 * row[1]).collect();
        let fit = Fit::new(&rows, &values, known, 0.01).unwrap();
        let [calls, sleeps, preemptions] = fit.coefficients;
        assert!((calls - 3.0).abs() < 1e-3 && (sleeps - 2.0).abs() < 1e-3, "{fit:?}");
        assert!((preemptions - 7.0).abs() < 1e-9 && (fit.effect([0.0, 0.0, -1.0])[1] - 2.0).abs() < 1e-9);
        assert!(fit.effect([0.0, 1.0, 0.0])[1] < 0.01);
        // The same number in every row: only the sum of both is known.
        let same = [[32.0, 4.0, 0.0]; 40];
        let fit = Fit::new(&same, &[100.0; 40], known, 0.01).unwrap();
        assert!(
            (fit.coefficients[1] + 1.0).abs() < 1e-3 && (fit.effect([0.0, 1.0, 0.0])[1] - 0.5).abs() < 1e-3,
            "{fit:?}"
        );
        assert_eq!(Fit::new(&same, &[f64::NAN; 40], known, 0.01), None);
    }
}
