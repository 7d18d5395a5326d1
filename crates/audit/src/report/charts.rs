// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The charts of a test, in the manner of Cardo's: times by CPU, system time by
//! itself and magnified, effects against length; of two audits both in one.

use std::collections::BTreeMap;

use crate::compare::TestChange;
use crate::model::{AuditVerdict, Quantity, Test};

use crate::report::words::{change_cpus, cpus, middle, of_cpu, quantities, quantity, unit};
use sandbag_ui::chart::{Chart, ChartSeries};

/// Of more CPUs only the middle and its interval are drawn, no single runs.
const MOST_DOTTED: usize = 32;
/// Unequal CPUs with a line and a colour of their own.
const MOST_LINES: usize = 6;
/// Intervals are drawn up to so many times the greatest difference.
const WIDEST: f64 = 4.0;
/// Series at one CPU lie so far apart.
const APART: f64 = 0.22;

/// One audit's part of a chart.
pub(crate) struct ChartSide<'a> {
    /// As the legend calls it; empty where there is only one.
    pub name: &'a str,
    pub test: &'a Test,
}

/// What figures are divided by to be read, and what they are then.
fn scale(quantity: Quantity, most: f64) -> (f64, &'static str) {
    if quantity.is_share() {
        (1.0, "%")
    } else {
        sandbag_ui::quantity::unit(most)
    }
}

/// Where the series of this number stands beside a CPU.
fn dodge(place: usize, number: usize, of: usize) -> f64 {
    let middle = of.saturating_sub(1) as f64 / 2.0;
    place as f64 + (number as f64 - middle) * APART
}

/// Times (or shares of noise) by CPU at the greatest length: all runs, their
/// middle with the interval that the effect has. `from_zero` is the paper's axis,
/// without it the figures fill the chart.
pub(crate) fn times(sides: &[ChartSide<'_>], q: Quantity, from_zero: bool) -> Option<Chart> {
    let mut all: Vec<u32> = sides.iter().flat_map(|side| cpus(side.test)).collect();
    all.sort_unstable();
    all.dedup();
    let greatest = |test: &Test| test.samples.iter().map(|sample| sample.length).max();
    let figures = |test: &Test, cpu: u32| -> Vec<f64> {
        let length = greatest(test);
        let here = test.samples.iter();
        let here = here.filter(|one| one.cpu == cpu && Some(one.length) == length);
        here.filter_map(|one| one.figure(q)).collect()
    };
    let most = sides.iter().flat_map(|side| &side.test.samples);
    let most = most.filter_map(|one| one.figure(q)).fold(0.0, f64::max);
    let (by, unit) = scale(q, most);
    let mut series = Vec::new();
    for (number, side) in sides.iter().enumerate() {
        let mut one = ChartSeries {
            name: side.name.to_owned(),
            colour: Some(number),
            ..ChartSeries::default()
        };
        for (place, cpu) in all.iter().enumerate() {
            let x = dodge(place, number, sides.len());
            let runs = figures(side.test, *cpu);
            let Some(here) = middle(runs.iter().copied()) else {
                continue;
            };
            if all.len() <= MOST_DOTTED {
                // In three rows, so that runs of the same time are seen as several.
                let dots = runs.iter().enumerate();
                one.points
                    .extend(dots.map(|(i, y)| (x + ((i % 3) as f64 - 1.0) * 0.05, y / by)));
            }
            let mut effects = side.test.effects.iter();
            let effect = effects.find(|effect| effect.cpu == *cpu && effect.quantity == q);
            let half = effect.map_or((0.0, 0.0), |effect| {
                let (low, high) = effect.interval_pct;
                (effect.pct - low, high - effect.pct)
            });
            // Points of a share; percent of a time.
            let size = if q.is_share() { 1.0 } else { here / 100.0 };
            // Nothing takes less than no time.
            let low = (here - half.0 * size).max(0.0);
            let ends = (low / by, (here + half.1 * size) / by);
            one.bars.push((x, ends.0, here / by, ends.1));
        }
        series.push(one);
    }
    series
        .iter()
        .any(|one| !one.bars.is_empty())
        .then(|| Chart {
            about: format!("{} by CPU", quantity(q)),
            x: "CPU".to_owned(),
            y: format!("{}, {unit}", quantity(q)),
            names: all.iter().map(u32::to_string).collect(),
            series,
            from_zero,
            band: None,
        })
}

/// Those with figures. Intervals that are far wider than the differences end at
/// the edge of the chart, or nothing else would be seen in it.
fn shorten(mut series: Vec<ChartSeries>, tolerance: f64) -> Vec<ChartSeries> {
    series.retain(|one| !one.bars.is_empty());
    let middles = series.iter().flat_map(|one| &one.bars);
    let most = middles.fold(tolerance, |most, (_, _, y, _)| most.max(y.abs()));
    let edge = WIDEST * most;
    for (_, low, _, high) in series.iter_mut().flat_map(|one| &mut one.bars) {
        (*low, *high) = (low.clamp(-edge, edge), high.clamp(-edge, edge));
    }
    series
}

/// A difference of a CPU: the ends of its interval, and between them the estimate.
type Bar = (f64, f64, f64);

/// Differences by CPU, beside each other those of each quantity, and the tolerance.
fn by_cpu(
    (about, what): (&str, &str),
    all: &[u32],
    quantities: &[Quantity],
    tolerance: f64,
    bar: impl Fn(u32, Quantity) -> Option<Bar>,
) -> Option<Chart> {
    let series = quantities.iter().enumerate().map(|(number, q)| {
        let bars = all.iter().enumerate().filter_map(|(place, cpu)| {
            let (low, pct, high) = bar(*cpu, *q)?;
            Some((dodge(place, number, quantities.len()), low, pct, high))
        });
        ChartSeries {
            name: quantity(*q).to_owned(),
            colour: Some(number),
            bars: bars.collect(),
            ..ChartSeries::default()
        }
    });
    let series = shorten(series.collect(), tolerance);
    let in_units = unit(*quantities.first()?);
    Some(Chart {
        about: about.to_owned(),
        x: "CPU".to_owned(),
        y: format!("{what}, {in_units}"),
        names: all.iter().map(u32::to_string).collect(),
        series,
        from_zero: true,
        band: Some((-tolerance, tolerance)),
    })
}

/// Effects by CPU with the intervals that hold for all, and the tolerance.
pub(crate) fn effects(test: &Test, tolerance: f64) -> Option<Chart> {
    let found = test.verdicts.iter();
    let found: BTreeMap<_, _> = found
        .map(|one| ((one.cpu, one.quantity), one.verdict))
        .collect();
    let words = ("differences from the middle CPU", "difference");
    by_cpu(
        words,
        &cpus(test),
        &quantities(test),
        tolerance,
        |cpu, q| {
            let mut effects = test.effects.iter();
            let effect = effects.find(|effect| effect.cpu == cpu && effect.quantity == q)?;
            let (low, high) = effect.together_pct;
            let resolved = found.get(&(cpu, q)) != Some(&AuditVerdict::NotResolvable);
            resolved.then_some((low, effect.pct, high))
        },
    )
}

/// Effects against length in the quantity in which CPUs differ most: what is
/// proportional stays, what is constant shrinks. Unequal CPUs have a colour.
pub(crate) fn by_length(test: &Test) -> Option<(Chart, Quantity)> {
    let worst = test
        .verdicts
        .iter()
        .filter(|one| one.verdict == AuditVerdict::Unequal);
    let worst = worst.filter_map(|one| {
        let mut effects = test.effects.iter();
        let here = |cpu, q| cpu == one.cpu && q == one.quantity;
        let effect = effects.find(|effect| here(effect.cpu, effect.quantity))?;
        Some((one.quantity, effect.pct.abs()))
    });
    let worst = worst.max_by(|a, b| a.1.total_cmp(&b.1));
    let q = worst.map_or_else(|| quantities(test).first().copied(), |(q, _)| Some(q))?;
    let mut lines: Vec<ChartSeries> = Vec::new();
    let mut odd = Vec::new();
    for (number, cpu) in cpus(test).into_iter().enumerate() {
        let mut here: Vec<_> = test
            .by_length
            .iter()
            .filter(|effect| effect.cpu == cpu && effect.quantity == q)
            .collect();
        here.sort_by_key(|effect| effect.length);
        let is_odd = of_cpu(test, cpu).0 == AuditVerdict::Unequal && odd.len() < MOST_LINES;
        let x = |length: usize| length as f64 + (number % 7) as f64 * 0.03 - 0.09;
        let mut series = ChartSeries {
            name: format!("CPU {cpu}"),
            line: here
                .iter()
                .map(|effect| (x(effect.length), effect.pct))
                .collect(),
            ..ChartSeries::default()
        };
        if is_odd {
            series.colour = Some(odd.len());
            let bars = here.iter().map(|effect| {
                let (low, high) = effect.interval_pct;
                (x(effect.length), low, effect.pct, high)
            });
            series.bars = bars.collect();
            odd.push(series);
        } else {
            lines.push(series);
        }
    }
    lines.extend(odd);
    lines.iter().any(|one| !one.line.is_empty()).then(|| {
        let chart = Chart {
            about: format!("difference in {} against length", quantity(q)),
            x: test.unit.clone(),
            y: format!("difference, {}", unit(q)),
            names: test.lengths.iter().map(u64::to_string).collect(),
            series: lines,
            from_zero: true,
            band: None,
        };
        (chart, q)
    })
}

/// Changes by CPU with the intervals that hold for all, and the tolerance.
pub(crate) fn changes(test: &TestChange, tolerance: f64) -> Option<Chart> {
    let all = change_cpus(test);
    let quantities = crate::report::words::change_quantities(test);
    let words = ("changes from the first audit to the second", "change");
    by_cpu(words, &all, &quantities, tolerance, |cpu, q| {
        let mut changes = test.changes.iter();
        let change = changes.find(|change| change.cpu == cpu && change.quantity == q)?;
        let (low, high) = change.together_pct.unwrap_or((change.pct, change.pct));
        (change.verdict != AuditVerdict::NotResolvable).then_some((low, change.pct, high))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Maker, eight};

    #[test]
    fn times_show_all_runs_and_their_middle() {
        let audit = eight();
        let side = |name| ChartSide {
            name,
            test: &audit.tests[1],
        };
        let chart = times(&[side("")], Quantity::System, true).unwrap();
        assert_eq!(chart.series[0].bars.len(), 8);
        assert_eq!(chart.series[0].points.len(), 80);
        assert_eq!(
            (chart.y.as_str(), chart.names[7].as_str()),
            ("system, ms", "7")
        );
        let (_, low, here, high) = chart.series[0].bars[0];
        assert!(
            low < here && here < high && (here - 164.8).abs() < 1.0,
            "{here}"
        );
        let both = times(&[side("a"), side("b")], Quantity::System, false).unwrap();
        assert_eq!(both.series.len(), 2);
        assert!(both.draw().is_some());
        let many = Maker::eight().cpus(128).rounds(3).make();
        let side = ChartSide {
            name: "",
            test: &many.tests[0],
        };
        assert!(
            times(&[side], Quantity::User, true).unwrap().series[0]
                .points
                .is_empty()
        );
    }

    #[test]
    fn the_odd_cpu_has_a_colour_of_its_own() {
        let audit = eight();
        let (chart, q) = by_length(&audit.tests[1]).unwrap();
        assert_eq!(q, Quantity::System);
        let coloured: Vec<&str> = chart
            .series
            .iter()
            .filter(|one| one.colour.is_some())
            .map(|one| one.name.as_str())
            .collect();
        assert_eq!(coloured, ["CPU 0"]);
        assert_eq!(chart.names, ["500000", "1000000", "2000000"]);
        assert!(effects(&audit.tests[1], 0.5).unwrap().draw().is_some());
    }

    #[test]
    fn a_test_without_figures_has_no_charts() {
        let mut audit = eight();
        let test = &mut audit.tests[0];
        test.samples.clear();
        test.effects.clear();
        test.by_length.clear();
        let test = &audit.tests[0];
        assert!(times(&[ChartSide { name: "", test }], Quantity::User, true).is_none());
        assert!(effects(test, 0.5).is_none() && by_length(test).is_none());
    }
}
