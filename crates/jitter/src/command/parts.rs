// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The components on the command line of `sandbag jitter synth`: `--period`
//! and `--poisson` begin one, and what follows belongs to it.

use std::path::PathBuf;
use std::time::Duration;

use crate::synth::{Arrivals, Component, Lengths};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use sandbag_linux::CpuList;
use sandbag_ui::quantity::time;

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
///
/// # Errors
/// What is wrong, and what would do.
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

fn cpus(text: &str) -> Result<CpuList, String> {
    match text.parse::<CpuList>() {
        Ok(list) if !list.is_empty() => Ok(list),
        _ => Err("expected CPUs of the trace, such as 0,2-3".to_owned()),
    }
}

/// What begins a component comes first.
const BEGIN: [&str; 2] = ["period", "poisson"];
const HEADING: &str = "Components (several, in a row; what follows --period or --poisson is of it)";

impl Args for ComponentSpecs {
    fn augment_args(command: Command) -> Command {
        let arg = |name: &'static str, value: &'static str, help: &'static str| {
            Arg::new(name)
                .long(name)
                .value_name(value)
                .help(help)
                .action(ArgAction::Append)
                .help_heading(HEADING)
        };
        let time = |arg: Arg| arg.value_parser(units::positive_duration);
        command
            .arg(time(arg("period", "TIME", "Events at equal distances")))
            .arg(
                arg(
                    "poisson",
                    "RATE",
                    "Events at random times, so many in a second",
                )
                .value_parser(rate),
            )
            .arg(
                arg(
                    "length",
                    "LENGTH",
                    "How long they are: 25us, lognormal:MEDIAN:SIGMA (sd of the natural \
                     logarithm), exponential:[LEAST:]MEAN, pareto:LEAST:ALPHA, trace:FILE (as in a \
                     recording) [default: 10us]",
                )
                .value_parser(lengths),
            )
            .arg(
                arg(
                    "phase",
                    "TIME",
                    "When the first comes [default: at random within the period]",
                )
                .value_parser(units::duration),
            )
            .arg(
                arg(
                    "jitter",
                    "TIME",
                    "Standard deviation of each from where it is due [default: 0]",
                )
                .value_parser(units::duration),
            )
            .arg(
                arg(
                    "share",
                    "PCT",
                    "Share of the periods that have their event [default: 100%]",
                )
                .value_parser(share),
            )
            .arg(arg("on", "LIST", "On these CPUs of the trace only").value_parser(cpus))
            .arg(
                Arg::new("common")
                    .long("common")
                    .help("The same events at the same times on all its CPUs")
                    .action(ArgAction::Append)
                    .help_heading(HEADING)
                    .num_args(0)
                    .default_missing_value("true")
                    .value_parser(value_parser!(bool)),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Values of an option with their places on the command line.
fn positions<T: Clone + Send + Sync + 'static>(
    matches: &ArgMatches,
    name: &str,
) -> Vec<(usize, T)> {
    let values = matches.get_many::<T>(name).into_iter().flatten().cloned();
    let places = matches.indices_of(name).into_iter().flatten();
    places.zip(values).collect()
}

/// What one option says of the component that it belongs to.
#[derive(Clone)]
enum ComponentOption {
    Period(Duration),
    Poisson(f64),
    Length(LengthsArg),
    Phase(Duration),
    Jitter(Duration),
    Share(f64),
    On(CpuList),
    Common,
}

impl FromArgMatches for ComponentSpecs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut all: Vec<(usize, ComponentOption)> = Vec::new();
        let mut take = |said: Vec<(usize, ComponentOption)>| all.extend(said);
        fn of<T: Clone + Send + Sync + 'static>(
            matches: &ArgMatches,
            name: &str,
            said: fn(T) -> ComponentOption,
        ) -> Vec<(usize, ComponentOption)> {
            let placed = positions(matches, name);
            placed
                .into_iter()
                .map(|(at, value)| (at, said(value)))
                .collect()
        }
        take(of(matches, "period", ComponentOption::Period));
        take(of(matches, "poisson", ComponentOption::Poisson));
        take(of(matches, "length", ComponentOption::Length));
        take(of(matches, "phase", ComponentOption::Phase));
        take(of(matches, "jitter", ComponentOption::Jitter));
        take(of(matches, "share", ComponentOption::Share));
        take(of(matches, "on", ComponentOption::On));
        take(of(matches, "common", |_: bool| ComponentOption::Common));
        all.sort_by_key(|(at, _)| *at);
        let mut parts: Vec<ComponentSpec> = Vec::new();
        for (_, said) in all {
            add(&mut parts, said).map_err(|text| {
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

fn new_part(arrivals: Arrivals) -> ComponentSpec {
    let ten_us = Lengths::Fixed(10_000.0);
    ComponentSpec {
        component: Component::new(arrivals, ten_us.clone()),
        lengths: LengthsArg::Are(ten_us),
    }
}

fn add(parts: &mut Vec<ComponentSpec>, said: ComponentOption) -> Result<(), String> {
    let ns = |time: Duration| time.as_nanos() as f64;
    match said {
        ComponentOption::Period(period) => {
            parts.push(new_part(Arrivals::Periodic {
                period_ns: ns(period),
                phase_ns: None,
                jitter_ns: 0.0,
                share: 1.0,
            }));
            return Ok(());
        }
        ComponentOption::Poisson(per_s) => {
            parts.push(new_part(Arrivals::Poisson { per_s }));
            return Ok(());
        }
        _ => {}
    }
    let begins = BEGIN.map(|name| format!("--{name}")).join(" or ");
    let Some(part) = parts.last_mut() else {
        return Err(format!("a component begins with {begins}"));
    };
    let component = &mut part.component;
    match (said, &mut component.arrivals) {
        (ComponentOption::Length(given), _) => part.lengths = given,
        (ComponentOption::On(list), _) => component.cpus = Some(list.iter().collect()),
        (ComponentOption::Common, _) => component.common = true,
        (ComponentOption::Phase(time), Arrivals::Periodic { phase_ns, .. }) => {
            *phase_ns = Some(ns(time))
        }
        (ComponentOption::Jitter(time), Arrivals::Periodic { jitter_ns, .. }) => {
            *jitter_ns = ns(time)
        }
        (ComponentOption::Share(given), Arrivals::Periodic { share, .. }) => *share = given,
        _ => {
            let text = "--phase, --jitter and --share are for --period: events at random times have \
                        none";
            return Err(text.to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Vec<ComponentSpec>, String> {
        let command = ComponentSpecs::augment_args(Command::new("synth").no_binary_name(true));
        let matches = command.try_get_matches_from(line.split_whitespace());
        let matches = matches.map_err(|error| error.to_string())?;
        let parts =
            ComponentSpecs::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        Ok(parts.0)
    }

    #[test]
    fn what_follows_belongs_to_the_component_before() {
        let parts = parse(
            "--period 10ms --length 25us --jitter 2us --poisson 300 --length pareto:1us:1.5 \
             --common --period 4ms --phase 1ms --share 50% --on 1,3",
        )
        .unwrap();
        assert_eq!(parts.len(), 3);
        assert_eq!(
            parts[0].component.arrivals,
            Arrivals::Periodic {
                period_ns: 10e6,
                phase_ns: None,
                jitter_ns: 2_000.0,
                share: 1.0,
            }
        );
        assert_eq!(parts[0].lengths, LengthsArg::Are(Lengths::Fixed(25_000.0)));
        assert!(!parts[0].component.common && parts[1].component.common);
        assert_eq!(
            parts[1].component.arrivals,
            Arrivals::Poisson { per_s: 300.0 }
        );
        assert_eq!(parts[2].component.cpus, Some(vec![1, 3]));
        assert_eq!(parts[2].lengths, LengthsArg::Are(Lengths::Fixed(10_000.0)));
        assert!(matches!(
            parts[2].component.arrivals,
            Arrivals::Periodic { phase_ns: Some(phase), share: 0.5, .. } if phase == 1e6
        ));
    }

    #[test]
    fn what_belongs_to_nothing_is_refused() {
        assert!(
            parse("--length 5us")
                .unwrap_err()
                .contains("begins with --period")
        );
        assert!(
            parse("--poisson 5 --phase 1ms")
                .unwrap_err()
                .contains("for --period")
        );
        for line in [
            "--poisson 0",
            "--poisson x",
            "--period 0s",
            "--period 1ms --length gamma:3",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn components_that_cannot_be_are_refused() {
        for (line, said) in [
            ("--period 10us --length 25us", "every 10.0 us"),
            ("--period 10us --length 10us", "leave nothing"),
            (
                "--poisson 1e6 --length exponential:2us",
                "times in a second",
            ),
            ("--poisson 10 --length pareto:1ms:0.1", "leave nothing"),
            ("--period 1ms --jitter 2ms", "--poisson"),
        ] {
            let parts = parse(line).unwrap();
            let LengthsArg::Are(lengths) = &parts[0].lengths else {
                panic!("{line}")
            };
            let component = Component {
                lengths: lengths.clone(),
                ..parts[0].component.clone()
            };
            let error = check(&component).unwrap_err().to_string();
            assert!(error.contains(said), "{line}: {error}");
        }
        let part = &parse("--period 10us --share 10% --length 25us").unwrap()[0];
        assert!(check(&part.component).is_ok());
        for line in [
            "--period 1ms --share 0",
            "--period 1ms --share NaN",
            "--poisson NaN",
            "--poisson -1",
            "--poisson 5 --length lognormal:5us:11",
            "--poisson 5 --length pareto:1us:nan",
            "--period 1ms --length 0us",
            "--period NaN",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn lengths_have_many_shapes() {
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
        assert_eq!(
            lengths("trace:a.sbj"),
            Ok(LengthsArg::OfTrace("a.sbj".into()))
        );
        for text in [
            "",
            "0us",
            "pareto:1us",
            "pareto:1us:-1",
            "lognormal:5us:x",
            "5 parsecs",
        ] {
            assert!(lengths(text).is_err(), "{text}");
        }
    }
}
