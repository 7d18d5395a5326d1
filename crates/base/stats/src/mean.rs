// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Confidence interval of a mean.

use crate::distribution::student_half_width;

/// Half-width of the 95 % confidence interval of the mean, by Student's t;
/// `None` for fewer than two values.
pub fn error_of_mean(values: impl ExactSizeIterator<Item = f64> + Clone) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let square: f64 = values.clone().map(|value| (value - mean).powi(2)).sum();
    let freedom = u32::try_from(values.len() - 1).ok()?;
    Some(student_half_width(0.95, freedom) * (square / (count - 1.0) / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        let error = |values: &[f64]| error_of_mean(values.iter().copied());
        assert_eq!(error(&[1.0]), None);
        // A standard deviation of 1, of three; t of 2 degrees of freedom is 4.303.
        let of_three = error(&[10.0, 11.0, 12.0]).unwrap();
        assert!((of_three - 4.303 / 3f64.sqrt()).abs() < 1e-3, "{of_three}");
        assert_eq!(error(&[2.0, 2.0]), Some(0.0));
    }
}
