// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Static charts as SVG, without scripts: values at named places of the abscissa, in
//! the colours of the page. Small, so that several fit beside each other.

use maud::{Markup, html};

use crate::text::visible;

/// The style of figures; goes below [`crate::page::STYLE`].
pub const STYLE: &str = include_str!("chart.css");

/// Edges of the area of the values in a drawing of 420 by 275 units, about as many
/// pixels on a page: left, right, top, bottom.
const AREA: (f64, f64, f64, f64) = (66.0, 410.0, 6.0, 229.0);
/// Colours of series, `--line-0` and so on in the page's style.
const COLOURS: usize = 8;
/// Names that fit under the abscissa.
const MOST_NAMES: usize = 16;
/// With more places than this, dots are smaller.
const MOST_LARGE: usize = 32;
/// Values beyond this are drawn at the edge.
const MOST: f64 = 1e15;
/// Intended number of ticks on the ordinate.
const TICKS: f64 = 5.0;
/// A range narrower than this share of its values is lost in their digits.
const LEAST_SHARE: f64 = 1e-9;

/// What is drawn in one colour. Abscissas are places: 0 is the first name.
#[derive(Debug, Clone, Default)]
pub struct ChartSeries {
    /// Its name in the legend.
    pub name: String,
    /// Number of its colour; none is grey, for what is there to compare with.
    pub colour: Option<usize>,
    /// Single values.
    pub points: Vec<(f64, f64)>,
    /// Abscissa, lower end, middle, upper end.
    pub bars: Vec<(f64, f64, f64, f64)>,
    /// Points that are connected.
    pub line: Vec<(f64, f64)>,
}

/// A chart.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    /// Description for readers who do not see it.
    pub about: String,
    /// Label of the abscissa.
    pub x: String,
    /// Label of the ordinate.
    pub y: String,
    /// Names of the places 0, 1, 2 of the abscissa.
    pub names: Vec<String>,
    /// The last is drawn on top.
    pub series: Vec<ChartSeries>,
    /// The ordinate begins at 0.
    pub from_zero: bool,
    /// A grey band from one value to another.
    pub band: Option<(f64, f64)>,
}

impl Chart {
    /// The SVG; `None` without a finite value.
    #[must_use]
    pub fn draw(&self) -> Option<Markup> {
        let axis = Axis::of(self.values(), self.from_zero, self.band)?;
        let (left, right, top, bottom) = AREA;
        let count = self.names.len();
        let every = count.div_ceil(MOST_NAMES).max(1);
        let radius = if count > MOST_LARGE { 2 } else { 3 };
        let width = (right - left) / (count as f64 + 0.2);
        let x = |x: f64| format!("{:.1}", left + (x + 0.6) * width);
        let y = |y: f64| format!("{:.1}", bottom - axis.share(y) * (bottom - top));
        let path = |line: &[(f64, f64)]| -> String {
            let points = line.iter().map(|at| format!("{},{}", x(at.0), y(at.1)));
            points.collect::<Vec<_>>().join(" ")
        };
        let labels = self.names.iter().enumerate().step_by(every);
        Some(html! {
            svg role="img" aria-label=(visible(&self.about)) viewBox="0 0 420 275" {
                @if let Some((from, to)) = self.band {
                    path .band d=(format!("M{left} {}V{}H{right}V{}Z", y(from), y(to), y(from))) {}
                }
                @for tick in &axis.ticks {
                    line .grid x1=(left) x2=(right) y1=(y(*tick)) y2=(y(*tick)) {}
                    text .tick x=(left - 6.0) y=(y(*tick)) { (axis.label(*tick)) }
                }
                path .axes d=(format!("M{left} {top}V{bottom}H{right}")) {}
                @for (place, name) in labels {
                    text x=(x(place as f64)) y=(bottom + 17.0) { (visible(name)) }
                }
                text x=(f64::midpoint(left, right)) y=(bottom + 38.0) { (visible(&self.x)) }
                text transform=(format!("translate(14 {}) rotate(-90)", f64::midpoint(top, bottom))) {
                    (visible(&self.y))
                }
                @for one in &self.series {
                    g .series style=(colour(one.colour)) stroke-width=(1 + u8::from(one.colour.is_some())) {
                        @if one.line.len() > 1 { polyline points=(path(&one.line)) {} }
                        @for at in &one.points { circle .point cx=(x(at.0)) cy=(y(at.1)) r=(radius - 1) {} }
                        @for (at, low, middle, high) in &one.bars {
                            line x1=(x(*at)) x2=(x(*at)) y1=(y(*low)) y2=(y(*high)) {}
                            circle cx=(x(*at)) cy=(y(*middle)) r=(radius) {}
                        }
                    }
                }
            }
        })
    }

    fn values(&self) -> Vec<f64> {
        let of = |one: &ChartSeries| {
            let points = one.points.iter().chain(&one.line).map(|(_, y)| *y);
            let bars = one.bars.iter();
            let bars = bars.flat_map(|(_, low, middle, high)| [*low, *middle, *high]);
            points.chain(bars).collect::<Vec<f64>>()
        };
        self.series.iter().flat_map(of).collect()
    }
}

/// A chart with its caption, its legend and notes; nothing without a value to draw.
#[must_use]
pub fn figure(caption: &str, chart: Option<Chart>, notes: &[&str]) -> Markup {
    let Some((chart, svg)) = chart.and_then(|chart| chart.draw().map(|svg| (chart, svg))) else {
        return html! {};
    };
    let named = |one: &&ChartSeries| one.colour.is_some() && !one.name.is_empty();
    html! {
        figure .plot {
            figcaption { (caption) }
            p .legend {
                @for one in chart.series.iter().filter(named) {
                    span { i .key style=(format!("{};border-top:3px solid", colour(one.colour))) {} (visible(&one.name)) }
                }
            }
            (svg)
            @for note in notes { p .note { (note) } }
        }
    }
}

fn colour(number: Option<usize>) -> String {
    match number {
        Some(number) => format!("color:var(--line-{})", number % COLOURS),
        None => "color:var(--plain)".to_owned(),
    }
}

/// The ordinate.
struct Axis {
    low: f64,
    high: f64,
    ticks: Vec<f64>,
    /// Distance of two ticks.
    step: f64,
}

impl Axis {
    /// For these values; `None` without a finite one.
    fn of(mut values: Vec<f64>, from_zero: bool, band: Option<(f64, f64)>) -> Option<Self> {
        values.retain(|value| value.is_finite());
        if values.is_empty() {
            return None;
        }
        values.extend(from_zero.then_some(0.0));
        values.extend(band.into_iter().flat_map(|(from, to)| [from, to]));
        let values = values.iter().map(|value| value.clamp(-MOST, MOST));
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(f64::NEG_INFINITY, f64::max);
        let least = (low.abs().max(high.abs()) * LEAST_SHARE).max(1e-9);
        let margin = match high - low {
            size if size >= least => size * 0.06,
            _ if low == 0.0 => 1.0,
            _ => (low.abs() * 0.05).max(least),
        };
        // An axis that begins at 0 has no margin below.
        let is_zero = from_zero && low == 0.0;
        let (low, high) = (if is_zero { 0.0 } else { low - margin }, high + margin);
        // The least of 1, 2, 5 and 10 times a power of ten.
        let least = (high - low) / TICKS;
        let power = 10f64.powf(least.log10().floor());
        let step = [1.0, 2.0, 5.0]
            .into_iter()
            .find(|step| step * power >= least);
        let step = step.unwrap_or(10.0) * power;
        let first = (low / step).ceil() as i64;
        let ticks = (0..20).map(|i| (first + i) as f64 * step);
        Some(Self {
            ticks: ticks.take_while(|tick| *tick <= high).collect(),
            low,
            high,
            step,
        })
    }

    /// Position of a value between the ends, 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        // 0 for NaN.
        if share > 0.0 { share.min(1.0) } else { 0.0 }
    }

    fn label(&self, value: f64) -> String {
        if value.abs() >= 1e6 {
            return format!("{value:.1e}");
        }
        let digits = (-self.step.log10().floor()).clamp(0.0, 9.0) as usize;
        let text = format!("{value:.digits$}");
        match text.trim_matches(['-', '0', '.']) {
            "" => "0".to_owned(),
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        for (values, from_zero, labels) in [
            ([0.0, 203.0], true, "0 50 100 150 200"),
            ([-0.2, 3.1], false, "0 1 2 3"),
            ([0.11, 0.13], false, "0.110 0.115 0.120 0.125 0.130"),
        ] {
            let axis = Axis::of(values.to_vec(), from_zero, None).unwrap();
            let found: Vec<String> = axis.ticks.iter().map(|tick| axis.label(*tick)).collect();
            assert_eq!(found.join(" "), labels);
        }
    }

    #[test]
    fn a_chart_is_drawn_whatever_its_values_are_and_left_out_without_any() {
        let chart = |values: &[f64]| Chart {
            about: "<\"a\">".to_owned(),
            names: (0..values.len()).map(|i| i.to_string()).collect(),
            series: vec![ChartSeries {
                points: (0..).map(f64::from).zip(values.iter().copied()).collect(),
                ..ChartSeries::default()
            }],
            ..Chart::default()
        };
        let many: Vec<f64> = (0..4096).map(f64::from).collect();
        let extremes = [0.0, 1e300, -1e300, 1e12, 5e-324, f64::MAX];
        for values in [
            &extremes[..1],
            &extremes,
            &[1e12, 1e12 + 1e-4],
            &[1.0, f64::NAN],
            &many,
        ] {
            let svg = chart(values).draw().unwrap().into_string();
            assert!(svg.starts_with("<svg role=\"img\" aria-label=\"&lt;&quot;a&quot;&gt;\""));
            assert_eq!(svg.matches("<circle").count(), values.len());
            let axis = Axis::of(values.to_vec(), true, None).unwrap();
            assert!(axis.low < axis.high && axis.ticks.len() <= 20, "{values:?}");
        }
        for none in [&[][..], &[f64::NAN], &[f64::INFINITY]] {
            let figure = figure("none", Some(chart(none)), &[]);
            assert!(figure.into_string().is_empty());
        }
    }
}
