// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The charts of a test, in the manner of Cardo's: times by CPU, system time by
//! itself and magnified, effects against length; of two audits both in one.

use sandbag_ui::chart::{Chart, ChartSeries};

use super::figures::FigureTable;
use super::words::{cpus, of_cpu, quantities};
use crate::effects::median;
use crate::model::{AuditVerdict, Quantity, Test, unique};

/// With more CPUs, only the median and its interval are drawn, no single runs.
const MOST_DOTTED: usize = 32;
/// Unequal CPUs with a line and a colour of their own.
const MOST_LINES: usize = 6;
/// Intervals are drawn up to this multiple of the greatest difference.
const WIDEST: f64 = 4.0;
/// Distance of the series at one CPU.
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
    let all = unique(sides.iter().flat_map(|side| cpus(side.test)));
    let figures = |test: &Test, cpu: u32| -> Vec<f64> {
        let length = test.samples.iter().map(|sample| sample.length).max();
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
            let Some(here) = median(runs.iter().copied()) else {
                continue;
            };
            if all.len() <= MOST_DOTTED {
                // In three rows, so that runs of the same time are seen as several.
                let dots = runs.iter().enumerate();
                one.points
                    .extend(dots.map(|(i, y)| (x + ((i % 3) as f64 - 1.0) * 0.05, y / by)));
            }
            let half = side.test.effect(*cpu, q).map_or((0.0, 0.0), |effect| {
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
            about: format!("{} by CPU", q.word()),
            x: "CPU".to_owned(),
            y: format!("{}, {unit}", q.word()),
            names: all.iter().map(u32::to_string).collect(),
            series,
            from_zero,
            band: None,
        })
}

/// Differences by CPU, those of each quantity beside each other, and the tolerance.
/// Intervals that are far wider than the differences end at the edge, or nothing else
/// would be seen.
pub(crate) fn differences(
    figures: &FigureTable,
    tolerance: f64,
    (about, what): (&str, &str),
) -> Option<Chart> {
    let resolved = || figures.figures.values().filter(|one| one.is_resolved());
    let edge = WIDEST * resolved().fold(tolerance, |most, one| most.max(one.pct.abs()));
    let count = figures.quantities.len();
    let series = figures.quantities.iter().enumerate().map(|(number, q)| {
        let bars = figures.rows.keys().enumerate().filter_map(|(place, cpu)| {
            let figure = figures.get(*cpu, *q).filter(|one| one.is_resolved())?;
            let (low, high) = figure.together_pct.unwrap_or((figure.pct, figure.pct));
            let (low, high) = (low.clamp(-edge, edge), high.clamp(-edge, edge));
            Some((dodge(place, number, count), low, figure.pct, high))
        });
        ChartSeries {
            name: q.word().to_owned(),
            colour: Some(number),
            bars: bars.collect(),
            ..ChartSeries::default()
        }
    });
    let in_units = figures.quantities.first()?.unit();
    Some(Chart {
        about: about.to_owned(),
        x: "CPU".to_owned(),
        y: format!("{what}, {in_units}"),
        names: figures.rows.keys().map(u32::to_string).collect(),
        series: series.filter(|one| !one.bars.is_empty()).collect(),
        from_zero: true,
        band: Some((-tolerance, tolerance)),
    })
}

/// Effects against length in the quantity in which CPUs differ most: what is
/// proportional stays, what is constant shrinks. Unequal CPUs have a colour.
pub(crate) fn by_length(test: &Test) -> Option<(Chart, Quantity)> {
    let worst = test
        .verdicts
        .iter()
        .filter(|one| one.verdict == AuditVerdict::Unequal);
    let worst = worst.filter_map(|one| {
        let effect = test.effect(one.cpu, one.quantity)?;
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
            about: format!("difference in {} against length", q.word()),
            x: test.unit.clone(),
            y: format!("difference, {}", q.unit()),
            names: test.lengths.iter().map(u64::to_string).collect(),
            series: lines,
            from_zero: true,
            band: None,
        };
        (chart, q)
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
        let figures = FigureTable::of_test(&audit.tests[1]);
        let chart = differences(&figures, 0.5, ("", "")).unwrap();
        assert!(chart.draw().is_some());
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
        let figures = FigureTable::of_test(test);
        assert!(differences(&figures, 0.5, ("", "")).is_none() && by_length(test).is_none());
    }
}
