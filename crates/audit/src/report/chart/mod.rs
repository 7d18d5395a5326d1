// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts as SVG without scripts: figures by CPU, effects against length. Small,
//! so that several stand beside each other and one fills a telephone; colours
//! and text are the page's (its style sheet knows those that are drawn here).

mod axis;
mod test_chart;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use axis::{Axis, MarkedScale};
pub(crate) use test_chart::{ChartSide, by_length, changes, effects, times};

/// Units of the drawing; about as many pixels on a page.
const SIZE: (u32, u32) = (420, 275);
/// Replaced by the page's: grey, and the lines' colours in the order of its
/// variables.
const INK: RGBColor = RGBColor(128, 128, 128);
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(184, 134, 11),
    RGBColor(86, 180, 233),
];
/// More names do not fit under the abscissa.
const MOST_NAMES: usize = 16;

/// Up to so many places middles are large.
const MOST_LARGE: usize = 32;

/// What is drawn in one colour.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChartSeries {
    /// As the legend calls it.
    pub name: String,
    /// Which of the colours; none is grey, which is for what is only there to
    /// compare with.
    pub colour: Option<usize>,
    /// Single figures.
    pub points: Vec<(f64, f64)>,
    /// Abscissa, lower end, middle, upper end.
    pub bars: Vec<(f64, f64, f64, f64)>,
    /// Points that are connected.
    pub line: Vec<(f64, f64)>,
}

/// A chart whose abscissa has a place for each of some names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chart {
    /// What it shows, for those who do not see it.
    pub about: String,
    /// Under the abscissa.
    pub x: String,
    /// Beside the ordinate.
    pub y: String,
    /// What stands at 0, 1, 2.
    pub names: Vec<String>,
    /// What is drawn, the last on top.
    pub series: Vec<ChartSeries>,
    /// The ordinate begins at 0.
    pub from_zero: bool,
    /// Figures that do not count, from and to.
    pub band: Option<(f64, f64)>,
}

impl Chart {
    /// The SVG; `None` if there is nothing to draw.
    pub(crate) fn draw(&self) -> Option<String> {
        let axis = Axis::of(&self.values(), self.from_zero)?;
        let mut svg = String::new();
        // What cannot be drawn is left out of a page, not the page.
        self.draw_into(&mut svg, &axis).ok()?;
        let start = format!(
            "<svg role=\"img\" aria-label=\"{}\" ",
            maud::html! { (self.about) }
                .into_string()
                .replace('"', "&quot;")
        );
        // Within a page it needs no name space.
        let svg = svg.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1);
        Some(svg.replacen("<svg ", &start, 1))
    }

    fn values(&self) -> Vec<f64> {
        let of = |series: &ChartSeries| -> Vec<f64> {
            let points = series.points.iter().chain(&series.line).map(|(_, y)| *y);
            let bars = series
                .bars
                .iter()
                .flat_map(|(_, low, y, high)| [*low, *y, *high]);
            points.chain(bars).collect()
        };
        let mut all: Vec<f64> = self.series.iter().flat_map(of).collect();
        if let (Some((low, high)), false) = (self.band, all.is_empty()) {
            all.extend([low, high]);
        }
        all
    }

    fn draw_into(&self, svg: &mut String, axis: &Axis) -> Result<(), Box<dyn std::error::Error>> {
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        let text = |size: i32| ("sans-serif", size).into_font().color(&INK);
        let count = self.names.len();
        let every = count.div_ceil(MOST_NAMES).max(1);
        let names: Vec<f64> = (0..count).step_by(every).map(|i| i as f64).collect();
        let name = |x: &f64| {
            self.names
                .get(x.round() as usize)
                .cloned()
                .unwrap_or_default()
        };
        let value = |y: &f64| axis.label(*y);
        let (low, high) = axis.ends;
        let mut chart = ChartBuilder::on(&area)
            .margin(6)
            .margin_right(10)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d(
                MarkedScale {
                    ends: (-0.6, count as f64 - 0.4),
                    marks: names,
                },
                MarkedScale {
                    ends: (low, high),
                    marks: axis.ticks.clone(),
                },
            )?;
        if let Some((from, to)) = self.band {
            let corners = [(-0.6, from), (count as f64 - 0.4, to)];
            chart.draw_series([Rectangle::new(corners, INK.mix(0.15).filled())])?;
        }
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_label_formatter(&name)
            .y_label_formatter(&value)
            .axis_style(INK)
            .bold_line_style(INK.mix(0.25))
            .light_line_style(TRANSPARENT)
            .x_label_style(text(14).pos(Pos::new(HPos::Center, VPos::Top)))
            .y_label_style(text(14))
            .axis_desc_style(text(14))
            .draw()?;
        let radius = if count > MOST_LARGE { 2 } else { 3 };
        for series in &self.series {
            let colour = series.colour.map_or(INK, |i| COLOURS[i % COLOURS.len()]);
            let width = if series.colour.is_some() { 2 } else { 1 };
            if series.line.len() > 1 {
                let path = PathElement::new(series.line.clone(), colour.stroke_width(width));
                chart.draw_series([path])?;
            }
            let dots = series.points.iter();
            chart.draw_series(
                dots.map(|at| Circle::new(*at, radius - 1, colour.mix(0.4).filled())),
            )?;
            let bars = series.bars.iter();
            chart.draw_series(bars.clone().map(|(x, from, _, to)| {
                PathElement::new([(*x, *from), (*x, *to)], colour.stroke_width(width))
            }))?;
            chart.draw_series(
                bars.map(|(x, _, y, _)| Circle::new((*x, *y), radius, colour.filled())),
            )?;
        }
        area.present()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[f64]) -> Chart {
        Chart {
            about: "<\"a\">".to_owned(),
            names: (0..values.len()).map(|i| i.to_string()).collect(),
            series: vec![ChartSeries {
                name: "a".to_owned(),
                colour: Some(0),
                points: values
                    .iter()
                    .enumerate()
                    .map(|(i, y)| (i as f64, *y))
                    .collect(),
                ..ChartSeries::default()
            }],
            ..Chart::default()
        }
    }

    #[test]
    fn a_chart_is_an_svg_that_says_what_it_is() {
        let svg = chart(&[1.0, 2.0, 3.0]).draw().unwrap();
        assert!(
            svg.starts_with("<svg role=\"img\" aria-label=\"&lt;&quot;a&quot;&gt;\""),
            "{svg}"
        );
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(!svg.contains("<script"));
    }

    #[test]
    fn whatever_the_figures_are_it_is_drawn_or_left_out() {
        for values in [
            &[0.0][..],
            &[1e300, -1e300],
            &[1e12, 1e12 + 1e-4],
            &[5e-324],
            &[f64::MAX],
        ] {
            assert!(chart(values).draw().is_some(), "{values:?}");
        }
        assert!(chart(&[]).draw().is_none());
        assert!(chart(&[f64::NAN]).draw().is_none());
        let many: Vec<f64> = (0..4096).map(f64::from).collect();
        assert!(chart(&many).draw().is_some());
    }
}
