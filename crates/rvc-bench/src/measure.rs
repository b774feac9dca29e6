//! Values beside their limits: medians of paired runs, one JSON line each.

use serde_json::json;

/// How often each value and each limit is measured where nothing else is said; the median counts.
pub(crate) const RUNS: usize = 5;

/// One value, beside what bounds it.
pub(crate) struct Measurement {
    /// What was measured.
    pub(crate) name: &'static str,
    /// The median of our runs.
    pub(crate) value: f64,
    /// The median of the limit's runs, or the number that the goal names.
    pub(crate) limit: f64,
    /// What both are counted in.
    pub(crate) unit: &'static str,
    /// Where the parts ran, and what the limit is.
    pub(crate) conditions: String,
}

impl Measurement {
    /// The line that goes to standard output.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        json!({
            "name": self.name,
            "value": rounded(self.value),
            "limit": rounded(self.limit),
            "ratio": rounded(self.value / self.limit),
            "unit": self.unit,
            "conditions": self.conditions,
        })
    }
}

/// Runs both in turn, so that a machine that changes its pace changes it for both.
pub(crate) fn paired(
    ours: impl FnMut() -> anyhow::Result<f64>,
    limit: impl FnMut() -> anyhow::Result<f64>,
) -> anyhow::Result<(f64, f64)> {
    in_turns(RUNS, ours, limit)
}

/// As [`paired`], that many times.
pub(crate) fn in_turns(
    turns: usize,
    mut ours: impl FnMut() -> anyhow::Result<f64>,
    mut limit: impl FnMut() -> anyhow::Result<f64>,
) -> anyhow::Result<(f64, f64)> {
    let mut values = Vec::new();
    let mut limits = Vec::new();
    for _ in 0..turns {
        values.push(ours()?);
        limits.push(limit()?);
    }
    Ok((median(values), median(limits)))
}

/// The median of [`RUNS`] runs.
pub(crate) fn repeated(mut run: impl FnMut() -> anyhow::Result<f64>) -> anyhow::Result<f64> {
    let values: Vec<f64> = (0..RUNS).map(|_| run()).collect::<Result<_, _>>()?;
    Ok(median(values))
}

/// The middle one.
///
/// # Panics
///
/// When there is none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_not_moved_by_one_bad_run() {
        assert!((median(vec![2.0, 900.0, 1.0, 3.0, 2.5]) - 2.5).abs() < f64::EPSILON);
    }

    #[test]
    fn a_line_has_the_ratio_of_value_and_limit() {
        let line = Measurement {
            name: "n",
            value: 90.0,
            limit: 120.0,
            unit: "requests/s",
            conditions: String::new(),
        }
        .to_json();
        assert_eq!(line["ratio"], 0.75);
    }
}
