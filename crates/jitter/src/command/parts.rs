// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The components on the command line of `sandbag jitter synth`: `--period`
//! and `--poisson` begin one, and what follows belongs to it.

use std::path::PathBuf;
use std::time::Duration;

use crate::synth::{Arrivals, Component, Lengths};
use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use sandbag_linux::CpuList;
use sandbag_ui::quantity::time;

use super::cpu_list;
use sandbag_ui::BadInput;
use sandbag_ui::units;

/// The lengths of a component's events, before a file is read.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum LengthsArg {
    /// As it stands there.
    Are(Lengths),
    /// Those of the events of a trace.
    OfTrace(PathBuf),
}

/// A component, before a file is read.
#[derive(Debug, Clone)]
pub(super) struct ComponentSpec {
    pub(super) component: Component,
    pub(super) lengths: LengthsArg,
}

/// All of them, in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct ComponentSpecs(pub(super) Vec<ComponentSpec>);

/// Standard deviation of the natural logarithm of lengths at most.
const MOST_SIGMA: f64 = 10.0;

/// `1us`, `lognormal:5us:0.8`, `exponential:5us`, `pareto:1us:1.5`,
/// `trace:FILE`.
fn lengths(text: &str) -> Result<LengthsArg, String> {
    let expected = "expected a time such as 25us, or lognormal:MEDIAN:SIGMA, \
                    exponential:[LEAST:]MEAN, pareto:LEAST:ALPHA, trace:FILE";
    let time = |text: &str| units::positive_duration(text).map(|time| time.as_nanos() as f64);
    let number = |text: &str| match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err(format!("{text} is no number above 0")),
    };
    if let Some(file) = text.strip_prefix("trace:") {
        return Ok(LengthsArg::OfTrace(file.into()));
    }
    let words: Vec<&str> = text.split(':').collect();
    let sigma = |text: &str| match number(text)? {
        sigma if sigma <= MOST_SIGMA => Ok(sigma),
        sigma => Err(format!(
            "a sigma of {sigma} spreads lengths over more than is between a nanosecond and an \
             hour: expected up to {MOST_SIGMA}"
        )),
    };
    let are = match words[..] {
        [fixed] => Lengths::Fixed(time(fixed).map_err(|_| expected)?),
        ["lognormal", median, spread] => Lengths::lognormal(time(median)?, sigma(spread)?),
        ["exponential", mean] => Lengths::exponential(0.0, time(mean)?),
        ["exponential", least, mean] => Lengths::exponential(time(least)?, time(mean)?),
        ["pareto", least, alpha] => Lengths::pareto(time(least)?, number(alpha)?),
        _ => return Err(expected.to_owned()),
    };
    Ok(LengthsArg::Are(are))
}

/// `300`, `300/s`: in a second.
fn rate(text: &str) -> Result<f64, String> {
    let number = text
        .trim()
        .trim_end_matches("/s")
        .trim_end_matches("Hz")
        .trim();
    match number.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("expected events in a second, such as 300".to_owned()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.trim().trim_end_matches('%').trim().parse::<f64>() {
        Ok(pct) if pct > 0.0 && pct <= 100.0 => Ok(pct / 100.0),
        _ => Err("expected a share in percent above 0, such as 80%".to_owned()),
    }
}

/// Whether a component leaves anything of a CPU, and is what it says.
pub(super) fn check(component: &Component) -> Result<(), BadInput> {
    if let Arrivals::Periodic {
        period_ns,
        jitter_ns,
        ..
    } = component.arrivals
        && jitter_ns > period_ns
    {
        return Err(BadInput(format!(
            "events that are off by {} (--jitter) have no period of {}: --poisson makes events at \
             random times",
            time(jitter_ns),
            time(period_ns)
        )));
    }
    let (Some(part), Some(mean_ns)) = (component.asks_for(), component.lengths.mean_ns()) else {
        return Ok(());
    };
    if part < 1.0 {
        return Ok(());
    }
    let often = match component.arrivals {
        Arrivals::Periodic { period_ns, .. } => format!("every {}", time(period_ns)),
        Arrivals::Poisson { per_s } => format!("{per_s} times in a second"),
    };
    Err(BadInput(format!(
        "events {often} that are {} long in the mean leave nothing of a CPU: fewer of them, or \
         shorter ones",
        time(mean_ns)
    )))
}

const HEADING: &str = "Components (several, in a row; what follows --period or --poisson is of it)";

impl Args for ComponentSpecs {
    fn augment_args(command: Command) -> Command {
        let arg = |name: &'static str, help: &'static str| {
            let arg = Arg::new(name).long(name).help(help);
            arg.action(ArgAction::Append).help_heading(HEADING)
        };
        let options: [(_, _, ValueParser, _); 7] = [
            (
                "period",
                "TIME",
                ValueParser::new(units::positive_duration),
                "Events at equal distances",
            ),
            (
                "poisson",
                "RATE",
                ValueParser::new(rate),
                "Events at random times, so many in a second",
            ),
            (
                "length",
                "LENGTH",
                ValueParser::new(lengths),
                "How long they are: 25us, lognormal:MEDIAN:SIGMA (sd of the natural \
                 logarithm), exponential:[LEAST:]MEAN, pareto:LEAST:ALPHA, trace:FILE (as in a \
                 recording) [default: 10us]",
            ),
            (
                "phase",
                "TIME",
                ValueParser::new(units::duration),
                "When the first comes [default: at random within the period]",
            ),
            (
                "jitter",
                "TIME",
                ValueParser::new(units::duration),
                "Standard deviation of each from where it is due [default: 0]",
            ),
            (
                "share",
                "PCT",
                ValueParser::new(share),
                "Share of the periods that have their event [default: 100%]",
            ),
            (
                "on",
                "LIST",
                ValueParser::new(cpu_list),
                "On these CPUs of the trace only",
            ),
        ];
        let options = options.map(|(name, value, parser, help)| {
            arg(name, help).value_name(value).value_parser(parser)
        });
        let common = arg(
            "common",
            "The same events at the same times on all its CPUs",
        );
        let common = common.num_args(0).default_missing_value("true");
        command
            .args(options)
            .arg(common.value_parser(value_parser!(bool)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

type Parts = Vec<ComponentSpec>;
/// An option with its value: how it changes the components before it.
type Change = Box<dyn FnOnce(&mut Parts) -> Result<(), String>>;

/// The changes of an option, each with its place on the command line.
fn changes<T: Clone + Send + Sync + 'static>(
    matches: &ArgMatches,
    name: &str,
    change: fn(&mut Parts, T) -> Result<(), String>,
) -> Vec<(usize, Change)> {
    let values = matches.get_many::<T>(name).into_iter().flatten().cloned();
    let places = matches.indices_of(name).into_iter().flatten();
    let boxed = |value| -> Change { Box::new(move |parts| change(parts, value)) };
    places.zip(values.map(boxed)).collect()
}

/// Begins a component.
fn begin(parts: &mut Parts, arrivals: Arrivals) -> Result<(), String> {
    let ten_us = Lengths::Fixed(10_000.0);
    parts.push(ComponentSpec {
        component: Component::new(arrivals, ten_us.clone()),
        lengths: LengthsArg::Are(ten_us),
    });
    Ok(())
}

/// The component that an option belongs to.
fn current(parts: &mut Parts) -> Result<&mut ComponentSpec, String> {
    let expected = "a component begins with --period or --poisson";
    parts.last_mut().ok_or_else(|| expected.to_owned())
}

/// Phase, jitter and share of a periodic component.
fn periodic(parts: &mut Parts) -> Result<(&mut Option<f64>, &mut f64, &mut f64), String> {
    match &mut current(parts)?.component.arrivals {
        Arrivals::Periodic {
            phase_ns,
            jitter_ns,
            share,
            ..
        } => Ok((phase_ns, jitter_ns, share)),
        Arrivals::Poisson { .. } => Err(
            "--phase, --jitter and --share are for --period: events at random times have none"
                .to_owned(),
        ),
    }
}

fn ns(time: Duration) -> f64 {
    time.as_nanos() as f64
}

impl FromArgMatches for ComponentSpecs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let all = [
            changes(matches, "period", |parts, time| {
                begin(parts, Arrivals::periodic(ns(time), 0.0))
            }),
            changes(matches, "poisson", |parts, per_s| {
                begin(parts, Arrivals::Poisson { per_s })
            }),
            changes(matches, "length", |parts, given| {
                current(parts).map(|part| part.lengths = given)
            }),
            changes(matches, "phase", |parts, time| {
                periodic(parts).map(|(phase_ns, ..)| *phase_ns = Some(ns(time)))
            }),
            changes(matches, "jitter", |parts, time| {
                periodic(parts).map(|(_, jitter_ns, _)| *jitter_ns = ns(time))
            }),
            changes(matches, "share", |parts, given| {
                periodic(parts).map(|(.., share)| *share = given)
            }),
            changes(matches, "on", |parts, list: CpuList| {
                current(parts).map(|part| part.component.cpus = Some(list.iter().collect()))
            }),
            changes(matches, "common", |parts, given| {
                current(parts).map(|part| part.component.common = given)
            }),
        ];
        let mut all: Vec<_> = all.into_iter().flatten().collect();
        all.sort_by_key(|(at, _)| *at);
        let mut parts = Parts::new();
        for (_, change) in all {
            change(&mut parts).map_err(|text| {
                clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, text + "\n")
            })?;
        }
        Ok(Self(parts))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Parts, String> {
        let command = ComponentSpecs::augment_args(Command::new("synth").no_binary_name(true));
        let matches = command.try_get_matches_from(line.split_whitespace());
        let parts = matches.and_then(|matches| ComponentSpecs::from_arg_matches(&matches));
        parts
            .map(|parts| parts.0)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn options_belong_to_the_component_before_them() {
        let parts = parse(
            "--period 10ms --length 25us --jitter 2us --poisson 300 --length pareto:1us:1.5 \
             --common --period 4ms --phase 1ms --share 50% --on 1,3",
        )
        .unwrap();
        let [a, b, c] = &parts[..] else {
            panic!("{parts:?}")
        };
        assert_eq!(a.component.arrivals, Arrivals::periodic(10e6, 2_000.0));
        assert_eq!(a.lengths, LengthsArg::Are(Lengths::Fixed(25_000.0)));
        assert_eq!(b.component.arrivals, Arrivals::Poisson { per_s: 300.0 });
        assert!(!a.component.common && b.component.common);
        assert_eq!(c.component.cpus, Some(vec![1, 3]));
        assert_eq!(c.lengths, LengthsArg::Are(Lengths::Fixed(10_000.0)));
        assert!(matches!(
            c.component.arrivals,
            Arrivals::Periodic { phase_ns: Some(phase), share: 0.5, .. } if phase == 1e6
        ));
    }

    #[test]
    fn options_and_components_that_cannot_be_are_refused() {
        for (line, expected) in [
            ("--length 5us", "begins with --period"),
            ("--poisson 5 --phase 1ms", "for --period"),
            ("--poisson 0", "events in a second"),
            ("--poisson x", "events in a second"),
            ("--poisson NaN", "events in a second"),
            ("--poisson -1", "-1"),
            ("--period 0s", "--period"),
            ("--period NaN", "--period"),
            ("--period 1ms --share 0", "above 0"),
            ("--period 1ms --share NaN", "above 0"),
            ("--period 1ms --length gamma:3", "lognormal:MEDIAN"),
            ("--period 1ms --length 0us", "lognormal:MEDIAN"),
            ("--poisson 5 --length lognormal:5us:11", "sigma"),
            ("--poisson 5 --length pareto:1us:nan", "no number above 0"),
            ("--period 10us --length 25us", "every 10.0 us"),
            ("--period 10us --length 10us", "leave nothing"),
            (
                "--poisson 1e6 --length exponential:2us",
                "times in a second",
            ),
            ("--poisson 10 --length pareto:1ms:0.1", "leave nothing"),
            ("--period 1ms --jitter 2ms", "--poisson"),
        ] {
            let checked = parse(line).and_then(|parts| {
                let LengthsArg::Are(lengths) = parts[0].lengths.clone() else {
                    panic!("{line}")
                };
                let component = Component {
                    lengths,
                    ..parts[0].component.clone()
                };
                check(&component).map_err(|error| error.to_string())
            });
            let error = checked.unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
        let part = &parse("--period 10us --share 10% --length 25us").unwrap()[0];
        assert!(check(&part.component).is_ok());
    }

    #[test]
    fn shapes_of_lengths() {
        for (text, expected) in [
            ("25us", Lengths::Fixed(25_000.0)),
            ("lognormal:5us:0.8", Lengths::lognormal(5_000.0, 0.8)),
            ("exponential:5us", Lengths::exponential(0.0, 5_000.0)),
            (
                "exponential:1us:5us",
                Lengths::exponential(1_000.0, 5_000.0),
            ),
        ] {
            assert_eq!(lengths(text), Ok(LengthsArg::Are(expected)));
        }
        let file = LengthsArg::OfTrace("a.sbj".into());
        assert_eq!(lengths("trace:a.sbj"), Ok(file));
        for text in [
            "",
            "pareto:1us",
            "pareto:1us:-1",
            "lognormal:5us:x",
            "5 parsecs",
        ] {
            assert!(lengths(text).is_err(), "{text}");
        }
    }
}
