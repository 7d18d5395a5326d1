// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures: lines with error bars, as SVG that stands on light and on dark
//! paper.

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::summary::Median;

/// A median and where it lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Abscissa.
    pub x: f64,
    /// Median.
    pub y: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Values that it is the median of; 0 for what was not measured so often.
    pub n: usize,
}

impl Point {
    /// A median at an abscissa.
    #[must_use]
    pub fn of(x: f64, median: Median) -> Self {
        Self {
            x,
            y: median.value,
            low: median.low,
            high: median.high,
            n: median.n,
        }
    }

    /// A value by itself.
    #[must_use]
    pub fn bare(x: f64, y: f64) -> Self {
        Self {
            x,
            y,
            low: y,
            high: y,
            n: 0,
        }
    }
}

/// One line of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// As the legend calls it.
    pub name: String,
    /// Its points, by abscissa.
    pub points: Vec<Point>,
    /// Whether they are connected.
    pub connected: bool,
    /// Whether it is only there to compare with: thin and grey.
    pub reference: bool,
}

/// The axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Axes {
    /// Title of the figure.
    pub title: String,
    /// What the abscissa is.
    pub x: String,
    /// What the ordinate is.
    pub y: String,
    /// Ends of the abscissa.
    pub x_range: (f64, f64),
    /// What stands at 1, 2, 3 in place of these numbers; empty for numbers.
    pub x_names: Vec<String>,
    /// Ends of the ordinate.
    pub y_range: (f64, f64),
}

const SIZE: (u32, u32) = (860, 420);
/// Width of the legend, which covers no line; height of one of its lines.
const LEGEND: (u32, i32) = (110, 18);
/// Readable on white and on black.
const INK: RGBColor = RGBColor(128, 128, 128);
/// Okabe and Ito's colours, which most people can tell apart, without the
/// yellow and the black that vanish on one of the papers.
const COLOURS: [RGBColor; 6] = [
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
];

/// How many values the points are medians of, in words; empty where they are
/// none.
fn counted(lines: &[Line]) -> String {
    let n = || lines.iter().flat_map(|line| &line.points).map(|p| p.n);
    let n = || n().filter(|n| *n > 0);
    match (n().min(), n().max()) {
        (Some(least), Some(most)) if least == most => format!(" (n = {least})"),
        (Some(least), Some(most)) => format!(" (n = {least} to {most})"),
        _ => String::new(),
    }
}

/// Draws the figure; its title says of how many values the points are medians.
///
/// # Errors
/// A figure that is not a number, which no axis has.
pub fn draw(axes: &Axes, lines: &[Line]) -> Result<String> {
    let mut svg = String::new();
    let failed = |error: &dyn std::fmt::Display| anyhow!("draw {:?}: {error}", axes.title);
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let text = |size: i32| ("sans-serif", size).into_font().color(&INK);
        let (plot, legend) = area.split_horizontally(SIZE.0 - LEGEND.0);
        let name_at = |x: &f64| -> String {
            let nearest = x.round();
            match (x - nearest).abs() < 0.01 && nearest >= 1.0 {
                true => axes.x_names.get(nearest as usize - 1).cloned(),
                false => None,
            }
            .unwrap_or_default()
        };
        let mut chart = ChartBuilder::on(&plot)
            .caption(
                format!("{}{}", axes.title, counted(lines)),
                text(16).pos(Pos::new(HPos::Center, VPos::Top)),
            )
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(60)
            .build_cartesian_2d(
                axes.x_range.0..axes.x_range.1,
                axes.y_range.0..axes.y_range.1,
            )
            .map_err(|error| failed(&error))?;
        let mut mesh = chart.configure_mesh();
        if !axes.x_names.is_empty() {
            mesh.x_labels(axes.x_names.len())
                .x_label_formatter(&name_at);
        }
        mesh.x_desc(&axes.x)
            .y_desc(&axes.y)
            .axis_style(INK)
            .bold_line_style(INK.mix(0.25))
            .light_line_style(TRANSPARENT)
            .label_style(text(12))
            .axis_desc_style(text(13))
            .draw()
            .map_err(|error| failed(&error))?;
        for (n, line) in lines.iter().enumerate() {
            // Past six lines the same colours, thinner.
            let colour = match line.reference {
                true => INK,
                false => COLOURS[n % COLOURS.len()],
            };
            let thin = line.reference || n >= COLOURS.len();
            let style = colour.stroke_width(if thin { 1 } else { 2 });
            let path = line
                .points
                .iter()
                .filter(|_| line.connected)
                .map(|p| (p.x, p.y));
            chart
                .draw_series(LineSeries::new(path, style))
                .map_err(|error| failed(&error))?;
            if lines.len() > 1 {
                let y = 50 + LEGEND.1 * i32::try_from(n).unwrap_or(i32::MAX);
                legend
                    .draw(&PathElement::new([(0, y), (18, y)], style))
                    .and_then(|()| {
                        legend.draw(&Text::new(line.name.as_str(), (24, y - 6), text(12)))
                    })
                    .map_err(|error| failed(&error))?;
            }
            let bars = line
                .points
                .iter()
                .filter(|p| !line.connected || p.low < p.high);
            chart
                .draw_series(
                    bars.map(|p| {
                        ErrorBar::new_vertical(p.x, p.low, p.y, p.high, colour.filled(), 6)
                    }),
                )
                .map_err(|error| failed(&error))?;
        }
        area.present().map_err(|error| failed(&error))?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Axes {
        Axes {
            title: "Speed <got>".to_owned(),
            x: "asked".to_owned(),
            y: "got".to_owned(),
            x_range: (0.0, 1.0),
            x_names: Vec::new(),
            y_range: (0.0, 1.0),
        }
    }

    #[test]
    fn every_line_is_in_the_legend_and_every_text_is_escaped() {
        let point = |x, y| Point {
            x,
            y,
            low: y - 0.05,
            high: y + 0.05,
            n: if x < 0.4 { 3 } else { 2 },
        };
        let lines = ["hogs", "pace & co"].map(|name| Line {
            name: name.to_owned(),
            points: vec![point(0.25, 0.3), point(0.5, 0.5)],
            connected: true,
            reference: false,
        });
        let svg = draw(&axes(), &lines).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(
            svg.contains("hogs") && svg.contains("pace &amp; co"),
            "{svg}"
        );
        assert!(
            !svg.contains("<got>") && svg.contains("(n = 2 to 3)"),
            "{svg}"
        );
    }

    #[test]
    fn a_figure_without_lines_is_a_figure() {
        let svg = draw(&axes(), &[]).unwrap();
        assert!(svg.contains("asked") && !svg.contains("n ="));
    }
}
