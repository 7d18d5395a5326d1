// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures: lines with error bars, as SVG that stands on light and on dark
//! paper.

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

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
    /// Ends of the ordinate.
    pub y_range: (f64, f64),
}

const SIZE: (u32, u32) = (760, 420);
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

/// Draws the figure.
///
/// # Errors
/// A figure that is not a number, which no axis has.
pub fn draw(axes: &Axes, lines: &[Line]) -> Result<String> {
    let mut svg = String::new();
    let failed = |error: &dyn std::fmt::Display| anyhow!("draw {:?}: {error}", axes.title);
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let text = |size: i32| ("sans-serif", size).into_font().color(&INK);
        let mut chart = ChartBuilder::on(&area)
            .caption(&axes.title, text(16).pos(Pos::new(HPos::Center, VPos::Top)))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(60)
            .build_cartesian_2d(
                axes.x_range.0..axes.x_range.1,
                axes.y_range.0..axes.y_range.1,
            )
            .map_err(|error| failed(&error))?;
        chart
            .configure_mesh()
            .x_desc(&axes.x)
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
            let colour = COLOURS[n % COLOURS.len()];
            let style = colour.stroke_width(if n < COLOURS.len() { 2 } else { 1 });
            let path = line
                .points
                .iter()
                .filter(|_| line.connected)
                .map(|p| (p.x, p.y));
            chart
                .draw_series(LineSeries::new(path, style))
                .map_err(|error| failed(&error))?
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
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
        if lines.len() > 1 {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperLeft)
                .border_style(INK.mix(0.4))
                .label_font(text(12))
                .draw()
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
        };
        let lines = ["hogs", "pace & co"].map(|name| Line {
            name: name.to_owned(),
            points: vec![point(0.25, 0.3), point(0.5, 0.5)],
            connected: true,
        });
        let svg = draw(&axes(), &lines).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(
            svg.contains("hogs") && svg.contains("pace &amp; co"),
            "{svg}"
        );
        assert!(!svg.contains("<got>"));
    }

    #[test]
    fn a_figure_without_lines_is_a_figure() {
        assert!(draw(&axes(), &[]).unwrap().contains("asked"));
    }
}
