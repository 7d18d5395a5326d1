// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures: lines with error bars, as SVG that is readable on light and on dark
//! backgrounds.

use std::error::Error;

use anyhow::{Result, anyhow};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::summary::Median;

/// A value at an abscissa with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub low: f64,
    pub high: f64,
    /// Values of which `y` is the median; 0 where it is none.
    pub n: usize,
}

impl Point {
    pub fn of(x: f64, median: Median) -> Self {
        Self {
            x,
            y: median.value,
            low: median.low,
            high: median.high,
            n: median.n,
        }
    }

    /// A value without an interval.
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

#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub name: String,
    pub points: Vec<Point>,
    pub connected: bool,
    /// Whether it is only there to compare with: thin and grey.
    pub reference: bool,
}

impl Line {
    pub fn new(name: impl Into<String>, points: impl Into<Vec<Point>>) -> Self {
        Self {
            name: name.into(),
            points: points.into(),
            connected: true,
            reference: false,
        }
    }

    /// Of connected points, only to compare with.
    pub fn reference(name: impl Into<String>, points: impl Into<Vec<Point>>) -> Self {
        Self {
            reference: true,
            ..Self::new(name, points)
        }
    }
}

/// Title and axes of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Axes {
    pub title: String,
    pub x: String,
    pub y: String,
    pub x_range: (f64, f64),
    /// Names at 1, 2, 3 in place of these numbers; empty for numbers.
    pub x_names: Vec<String>,
    pub y_range: (f64, f64),
}

/// The highest point of the lines, with room above it; at least `least`.
pub fn top(lines: &[Line], least: f64) -> f64 {
    let points = lines.iter().flat_map(|line| &line.points);
    points.map(|point| point.high).fold(least, f64::max) * 1.05
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
    marker: &'static [(i32, i32)],
}

const WHOLE: (u32, u32) = (8, 0);

const fn style(
    method: &'static str,
    (r, g, b): (u8, u8, u8),
    dash: (u32, u32),
    marker: &'static [(i32, i32)],
) -> Style {
    Style {
        method,
        colour: RGBColor(r, g, b),
        dash,
        marker,
    }
}

const SQUARE: &[(i32, i32)] = &[(-4, -4), (4, -4), (4, 4), (-4, 4), (-4, -4)];
const UP: &[(i32, i32)] = &[(0, -5), (5, 4), (-5, 4), (0, -5)];
const DOWN: &[(i32, i32)] = &[(0, 5), (5, -4), (-5, -4), (0, 5)];
const DIAMOND: &[(i32, i32)] = &[(0, -5), (5, 0), (0, 5), (-5, 0), (0, -5)];
const CROSS: &[(i32, i32)] = &[(-4, -4), (4, 4), (0, 0), (-4, 4), (4, -4)];
const PLUS: &[(i32, i32)] = &[(0, -5), (0, 5), (0, 0), (-5, 0), (5, 0)];
const BOW_TIE: &[(i32, i32)] = &[(-4, -4), (4, 4), (4, -4), (-4, 4), (-4, -4)];
const HOURGLASS: &[(i32, i32)] = &[(-4, -4), (4, -4), (-4, 4), (4, 4), (-4, -4)];
const N: &[(i32, i32)] = &[(-4, 4), (-4, -4), (4, 4), (4, -4)];
const HEXAGON: &[(i32, i32)] = &[
    (-2, -5),
    (2, -5),
    (5, 0),
    (2, 5),
    (-2, 5),
    (-5, 0),
    (-2, -5),
];

/// Of every method, in every figure; other names get those that are left. The
/// first six colours are Okabe and Ito's without the yellow and the black, which
/// vanish on one of the backgrounds.
const STYLES: [Style; 10] = [
    style("pace", (0, 114, 178), WHOLE, SQUARE),
    style("hogs", (213, 94, 0), (16, 3), UP),
    style("quota", (0, 158, 115), (10, 4), DIAMOND),
    style("shares", (204, 121, 167), (3, 3), DOWN),
    style("rt", (230, 159, 0), (6, 2), CROSS),
    style("deadline", (86, 180, 233), (14, 8), PLUS),
    style("lim", (148, 103, 189), (2, 6), BOW_TIE),
    style("freq", (140, 100, 70), (6, 6), HOURGLASS),
    style("gov", (150, 150, 0), (4, 10), HEXAGON),
    style("cap", (200, 30, 60), (22, 6), N),
];

/// Of a thin, grey line to compare with.
const REFERENCE: Style = style("", (128, 128, 128), WHOLE, &[]);

/// More points than this are a curve: markers would hide it.
const MOST_MARKED: usize = 40;

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

/// Draws the figure as SVG; its title says of how many values the points are medians.
pub fn draw(axes: &Axes, lines: &[Line]) -> Result<String> {
    let mut svg = String::new();
    draw_into(&mut svg, axes, lines).map_err(|error| anyhow!("draw {:?}: {error}", axes.title))?;
    Ok(svg)
}

fn draw_into(svg: &mut String, axes: &Axes, lines: &[Line]) -> Result<(), Box<dyn Error>> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let text = |size: i32| ("sans-serif", size).into_font().color(&INK);
    let (plot, legend) = area.split_horizontally(SIZE.0 - LEGEND.0);
    let title = format!("{}{}", axes.title, counted(lines));
    let mut chart = ChartBuilder::on(&plot)
        .caption(title, text(16).pos(Pos::new(HPos::Center, VPos::Top)))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .build_cartesian_2d(
            axes.x_range.0..axes.x_range.1,
            axes.y_range.0..axes.y_range.1,
        )?;
    let name_at = |x: &f64| {
        let at = (1..=axes.x_names.len()).find(|at| (x - *at as f64).abs() < 0.01);
        at.map_or_else(String::new, |at| axes.x_names[at - 1].clone())
    };
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
        .draw()?;
    for (n, (line, look)) in lines.iter().zip(styles(lines)).enumerate() {
        let stroke = look.colour.stroke_width(if line.reference { 1 } else { 2 });
        let (dash, gap) = look.dash;
        let marker = |at: (i32, i32)| -> Vec<(i32, i32)> {
            let corners = look.marker.iter();
            corners.map(|(x, y)| (at.0 + x, at.1 + y)).collect()
        };
        let points = || line.points.iter();
        let path = points().filter(|_| line.connected).map(|p| (p.x, p.y));
        chart.draw_series(DashedLineSeries::new(path, dash, gap, stroke))?;
        if lines.len() > 1 {
            let y = 50 + LEGEND.1 * i32::try_from(n).unwrap_or(i32::MAX);
            let ends = [(0, y), (28, y)].into_iter();
            legend.draw(&DashedPathElement::new(ends, dash, gap, stroke))?;
            legend.draw(&PathElement::new(marker((14, y)), stroke))?;
            legend.draw(&Text::new(line.name.as_str(), (34, y - 6), text(12)))?;
        }
        let bars = points().filter(|p| !line.connected || p.low < p.high);
        chart.draw_series(
            bars.map(|p| ErrorBar::new_vertical(p.x, p.low, p.y, p.high, look.colour.filled(), 6)),
        )?;
        if line.connected && line.points.len() <= MOST_MARKED && !look.marker.is_empty() {
            chart.draw_series(points().map(|p| {
                EmptyElement::at((p.x, p.y)) + PathElement::new(marker((0, 0)), stroke)
            }))?;
        }
    }
    area.present()?;
    Ok(())
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
        let points = [point(0.25, 0.3), point(0.5, 0.5)];
        let lines = ["hogs", "pace & co"].map(|name| Line::new(name, points));
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
        Line::new(name, [Point::bare(0.2, 0.2), Point::bare(0.8, 0.8)])
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
