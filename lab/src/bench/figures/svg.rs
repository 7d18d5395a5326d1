// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Slowdown against ranks as an SVG image: what a page shows, without a script.

use std::fmt::Write as _;

use sandbag_scale::page::{Curve, Point};
use sandbag_ui::quantity::percent;

/// Size, and what the axes need of it.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const LEGEND: f64 = 18.0;
const BOTTOM: f64 = 48.0;
/// Okabe and Ito (2008), as the pages' lines; readable on white and on dark grey.
/// Further curves have them with the next pattern of [`DASHES`].
const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9",
];
const DASHES: [&str; 3] = [
    "",
    " stroke-dasharray=\"10 4\"",
    " stroke-dasharray=\"2 4\"",
];
/// Of what was published.
const PUBLISHED: &str = " stroke-dasharray=\"5 4\"";
const SOFT: &str = "#7a838c";

/// Where a slowdown lies in the image.
struct Scale {
    /// Logarithms of the ends.
    ranks: (f64, f64),
    most_pct: f64,
    top: f64,
}

impl Scale {
    fn new(curves: &[Curve]) -> Self {
        let points = || curves.iter().flat_map(|curve| &curve.points);
        let ranks = |p: &Point| (p.ranks as f64).log2();
        let first = points().map(ranks).fold(f64::INFINITY, f64::min);
        let last = points().map(ranks).fold(f64::NEG_INFINITY, f64::max);
        let high = |p: &Point| {
            p.interval_pct
                .map_or(p.slowdown_pct, |i| i.1.max(p.slowdown_pct))
        };
        let most = points().map(high).fold(0.0, f64::max);
        Self {
            ranks: (first, last.max(first + 1.0)),
            most_pct: nice(most.max(1e-3)),
            top: TOP + LEGEND * curves.len() as f64,
        }
    }

    fn x(&self, ranks: u64) -> f64 {
        let (first, last) = self.ranks;
        LEFT + ((ranks as f64).log2() - first) / (last - first) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, pct: f64) -> f64 {
        HEIGHT - BOTTOM - pct / self.most_pct * (HEIGHT - BOTTOM - self.top)
    }
}

/// The least round number that is not below it.
fn nice(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let round = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let least = round
        .iter()
        .map(|n| n * power)
        .find(|n| *n >= value * 0.999_999);
    least.unwrap_or(value)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// The image.
pub fn draw(curves: &[Curve]) -> String {
    let scale = Scale::new(curves);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"{SOFT}\">\n"
    );
    axes(&mut out, &scale);
    for (number, curve) in curves.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let y = TOP + LEGEND * number as f64;
        let mark = match (curve.published, number / COLOURS.len()) {
            (true, _) => "◆",
            (false, 0) => "—",
            (false, 1) => "– –",
            (false, _) => "···",
        };
        let _ = writeln!(
            out,
            "<text x=\"{LEFT}\" y=\"{y:.0}\" fill=\"{colour}\">{mark} {}</text>",
            escaped(&curve.name)
        );
        let dashes = if curve.published {
            PUBLISHED
        } else {
            DASHES[number / COLOURS.len() % DASHES.len()]
        };
        line(&mut out, &scale, curve, colour, dashes);
    }
    out += "</svg>\n";
    out
}

fn axes(out: &mut String, scale: &Scale) {
    for step in 0..=4 {
        let pct = scale.most_pct * f64::from(step) / 4.0;
        let y = scale.y(pct);
        let right = WIDTH - RIGHT;
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"{SOFT}\" stroke-opacity=\"0.3\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{} %</text>",
            LEFT - 6.0,
            y + 4.0,
            if step == 0 {
                "0".to_owned()
            } else {
                percent(pct)
            }
        );
    }
    let (first, last) = scale.ranks;
    for power in first.ceil() as u32..=last.floor() as u32 {
        let ranks = 1u64 << power;
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{ranks}</text>",
            scale.x(ranks),
            HEIGHT - BOTTOM + 18.0
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">ranks</text>",
        f64::midpoint(LEFT, WIDTH),
        HEIGHT - 8.0
    );
}

fn line(out: &mut String, scale: &Scale, curve: &Curve, colour: &str, dashes: &str) {
    let at = |p: &Point, pct: f64| format!("{:.1},{:.1}", scale.x(p.ranks), scale.y(pct));
    let join = |points: Vec<String>| points.join(" ");
    let known = || {
        curve
            .points
            .iter()
            .filter_map(|p| Some((p, p.interval_pct?)))
    };
    let mut band: Vec<String> = known().map(|(p, (_, high))| at(p, high)).collect();
    let back: Vec<String> = known().map(|(p, (low, _))| at(p, low)).collect();
    band.extend(back.into_iter().rev());
    if band.len() > 2 {
        let _ = writeln!(
            out,
            "<polygon points=\"{}\" fill=\"{colour}\" fill-opacity=\"0.15\"/>",
            join(band)
        );
    }
    let points: Vec<String> = curve.points.iter().map(|p| at(p, p.slowdown_pct)).collect();
    let _ = writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>",
        join(points)
    );
    for point in &curve.points {
        let (x, y) = (scale.x(point.ranks), scale.y(point.slowdown_pct));
        let _ = match (curve.published, point.lower_bound) {
            (true, _) => writeln!(
                out,
                "<path d=\"M{x:.1} {:.1}l6 6l-6 6l-6 -6z\" fill=\"{colour}\"/>",
                y - 6.0
            ),
            (false, bound) => writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{}\" stroke=\"{colour}\"/>",
                if bound { "white" } else { colour }
            ),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str, points: &[(u64, f64)], published: bool) -> Curve {
        Curve {
            name: name.to_owned(),
            points: points
                .iter()
                .map(|(ranks, pct)| Point {
                    ranks: *ranks,
                    slowdown_pct: *pct,
                    interval_pct: (!published).then_some((pct * 0.9, pct * 1.1)),
                    phases_pct: [*pct; 4],
                    barrier_ns: 0.0,
                    lower_bound: *ranks > 1000,
                    tail_pct: None,
                    tail_interval_pct: None,
                })
                .collect(),
            published,
        }
    }

    #[test]
    fn lines_bands_and_marks() {
        let text = draw(&[
            curve("a & <b>", &[(16, 1.0), (2048, 9.0)], false),
            curve("others", &[(2048, 6.0)], true),
        ]);
        assert!(text.contains("a &amp; &lt;b&gt;"));
        assert_eq!(text.matches("<polygon").count(), 1);
        assert_eq!(text.matches("<circle").count(), 2);
        assert_eq!(text.matches("fill=\"white\"").count(), 1);
        // 10 % is the top of the axis, 2048 its right end.
        assert!(text.contains("10.0 %") && text.contains(">2048<"), "{text}");
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!(nice(0.72), 0.8);
        assert_eq!(nice(99.0), 100.0);
        assert_eq!(nice(5.0), 5.0);
    }
}
