// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures: lines with error bars, as SVG that stands on light and on dark
//! paper.

use anyhow::{Result, anyhow};
use plotters::element::DashedPathElement;
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
const LEGEND: (u32, i32) = (126, 18);
/// Readable on white and on black.
const INK: RGBColor = RGBColor(128, 128, 128);
/// How a line is drawn: no two have the colour, the dash or the marker in common.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Style {
    /// What is always drawn like this; no other line is while it is there.
    method: &'static str,
    colour: RGBColor,
    /// Length of a dash and of the gap after it; no gap in a whole line.
    dash: (u32, u32),
    /// Corners around a point.
    marker: &'static [(i32, i32)],
}

const WHOLE: (u32, u32) = (8, 0);

/// Of every method, in every figure; other names get those that are left. The
/// first six colours are Okabe and Ito's without the yellow and the black, which
/// vanish on one of the papers.
const STYLES: [Style; 10] = [
    Style {
        method: "pace",
        colour: RGBColor(0, 114, 178),
        dash: WHOLE,
        marker: &[(-4, -4), (4, -4), (4, 4), (-4, 4), (-4, -4)],
    },
    Style {
        method: "hogs",
        colour: RGBColor(213, 94, 0),
        dash: (16, 3),
        marker: &[(0, -5), (5, 4), (-5, 4), (0, -5)],
    },
    Style {
        method: "quota",
        colour: RGBColor(0, 158, 115),
        dash: (10, 4),
        marker: &[(0, -5), (5, 0), (0, 5), (-5, 0), (0, -5)],
    },
    Style {
        method: "shares",
        colour: RGBColor(204, 121, 167),
        dash: (3, 3),
        marker: &[(0, 5), (5, -4), (-5, -4), (0, 5)],
    },
    Style {
        method: "rt",
        colour: RGBColor(230, 159, 0),
        dash: (6, 2),
        marker: &[(-4, -4), (4, 4), (0, 0), (-4, 4), (4, -4)],
    },
    Style {
        method: "deadline",
        colour: RGBColor(86, 180, 233),
        dash: (14, 8),
        marker: &[(0, -5), (0, 5), (0, 0), (-5, 0), (5, 0)],
    },
    Style {
        method: "lim",
        colour: RGBColor(148, 103, 189),
        dash: (2, 6),
        marker: &[(-4, -4), (4, 4), (4, -4), (-4, 4), (-4, -4)],
    },
    Style {
        method: "freq",
        colour: RGBColor(140, 100, 70),
        dash: (6, 6),
        marker: &[(-4, -4), (4, -4), (-4, 4), (4, 4), (-4, -4)],
    },
    Style {
        method: "gov",
        colour: RGBColor(150, 150, 0),
        dash: (4, 10),
        marker: &[
            (-2, -5),
            (2, -5),
            (5, 0),
            (2, 5),
            (-2, 5),
            (-5, 0),
            (-2, -5),
        ],
    },
    Style {
        method: "cap",
        colour: RGBColor(200, 30, 60),
        dash: (22, 6),
        marker: &[(-4, 4), (-4, -4), (4, 4), (4, -4)],
    },
];

/// Of a thin, grey line to compare with.
const REFERENCE: Style = Style {
    method: "",
    colour: INK,
    dash: WHOLE,
    marker: &[],
};

/// More points than this are a curve: markers would hide it.
const MOST_MARKED: usize = 40;

/// Whether figures know this method: its lines look the same in all of them.
#[must_use]
pub fn knows_method(name: &str) -> bool {
    STYLES.iter().any(|style| style.method == name)
}

/// A style for each line.
fn styles(lines: &[Line]) -> Vec<Style> {
    let of_method = |name: &str| STYLES.iter().find(|style| style.method == name);
    let is_there = |style: &&Style| lines.iter().any(|line| line.name == style.method);
    let mut left = STYLES.iter().filter(|style| !is_there(style)).cycle();
    let style = |line: &Line| {
        if line.reference {
            REFERENCE
        } else {
            *of_method(&line.name)
                .or_else(|| left.next())
                .unwrap_or(&REFERENCE)
        }
    };
    lines.iter().map(style).collect()
}

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
            if (x - nearest).abs() < 0.01 && nearest >= 1.0 {
                axes.x_names.get(nearest as usize - 1).cloned()
            } else {
                None
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
        for (n, (line, look)) in lines.iter().zip(styles(lines)).enumerate() {
            let stroke = look.colour.stroke_width(if line.reference { 1 } else { 2 });
            let marker = |at: (i32, i32)| -> Vec<(i32, i32)> {
                let corners = look.marker.iter();
                corners.map(|(x, y)| (at.0 + x, at.1 + y)).collect()
            };
            let path = line
                .points
                .iter()
                .filter(|_| line.connected)
                .map(|p| (p.x, p.y));
            chart
                .draw_series(DashedLineSeries::new(
                    path,
                    look.dash.0,
                    look.dash.1,
                    stroke,
                ))
                .map_err(|error| failed(&error))?;
            if lines.len() > 1 {
                let y = 50 + LEGEND.1 * i32::try_from(n).unwrap_or(i32::MAX);
                let ends = [(0, y), (28, y)].into_iter();
                legend
                    .draw(&DashedPathElement::new(
                        ends,
                        look.dash.0,
                        look.dash.1,
                        stroke,
                    ))
                    .and_then(|()| legend.draw(&PathElement::new(marker((14, y)), stroke)))
                    .and_then(|()| {
                        legend.draw(&Text::new(line.name.as_str(), (34, y - 6), text(12)))
                    })
                    .map_err(|error| failed(&error))?;
            }
            let bars = line
                .points
                .iter()
                .filter(|p| !line.connected || p.low < p.high);
            chart
                .draw_series(bars.map(|p| {
                    ErrorBar::new_vertical(p.x, p.low, p.y, p.high, look.colour.filled(), 6)
                }))
                .map_err(|error| failed(&error))?;
            let marked = line.points.iter().filter(|_| {
                line.connected && line.points.len() <= MOST_MARKED && !look.marker.is_empty()
            });
            chart
                .draw_series(marked.map(|p| {
                    EmptyElement::at((p.x, p.y)) + PathElement::new(marker((0, 0)), stroke)
                }))
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

    fn line(name: &str) -> Line {
        Line {
            name: name.to_owned(),
            points: vec![Point::bare(0.2, 0.2), Point::bare(0.8, 0.8)],
            connected: true,
            reference: false,
        }
    }

    #[test]
    fn no_two_lines_have_a_colour_a_dash_or_a_marker_in_common() {
        let names = STYLES.map(|style| line(style.method));
        let strange = [line("a"), line("pace"), line("b")];
        for lines in [&names[..], &strange] {
            let styles = styles(lines);
            for (n, one) in styles.iter().enumerate() {
                for other in &styles[..n] {
                    assert_ne!(one.colour, other.colour);
                    assert_ne!(one.dash, other.dash);
                    assert_ne!(one.marker, other.marker);
                }
            }
        }
    }

    #[test]
    fn a_method_looks_the_same_in_every_figure() {
        let cap = STYLES.iter().find(|style| style.method == "cap").unwrap();
        let colour = |style: &Style| {
            let RGBColor(r, g, b) = style.colour;
            format!("#{r:02X}{g:02X}{b:02X}")
        };
        let alone = [line("x"), line("cap")];
        let last: Vec<Line> = STYLES.iter().map(|style| line(style.method)).collect();
        for lines in [&alone[..], &last] {
            assert_eq!(styles(lines).last(), Some(cap));
            assert!(draw(&axes(), lines).unwrap().contains(&colour(cap)));
        }
        assert!(!draw(&axes(), &alone).unwrap().contains(&colour(&STYLES[1])));
    }

    #[test]
    fn a_figure_without_lines_is_a_figure() {
        let svg = draw(&axes(), &[]).unwrap();
        assert!(svg.contains("asked") && !svg.contains("n ="));
    }
}
