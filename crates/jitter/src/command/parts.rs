// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The components on the command line of `sandbag jitter synth`: `--period` and
//! `--poisson` begin one, and the options after it belong to it.

use std::path::PathBuf;
use std::time::Duration;

use crate::synth::{Arrivals, Component, Lengths};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use sandbag_linux::CpuList;
use sandbag_ui::quantity::time;

use sandbag_ui::BadInput;
use sandbag_ui::units;

/// The lengths of a component's events, before files are read.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum LengthsArg {
    Are(Lengths),
    /// Those of the events of a trace.
    OfTrace(PathBuf),
}

/// A component, before files are read.
#[derive(Debug, Clone)]
pub(super) struct ComponentSpec {
    pub(super) component: Component,
    pub(super) lengths: LengthsArg,
}

/// The components in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct ComponentSpecs(pub(super) Vec<ComponentSpec>);

/// Largest standard deviation of the natural logarithm of lengths.
const MOST_SIGMA: f64 = 10.0;

fn positive(text: &str, expected: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err(expected.to_owned()),
    }
}

/// `1us`, `lognormal:5us:0.8`, `exponential:5us`, `pareto:1us:1.5`, `trace:FILE`.
fn lengths(text: &str) -> Result<LengthsArg, String> {
    let expected = "expected a time such as 25us, or lognormal:MEDIAN:SIGMA, \
                    exponential:[LEAST:]MEAN, pareto:LEAST:ALPHA, trace:FILE";
    let time = |text: &str| units::positive_duration(text).map(|time| time.as_nanos() as f64);
    let number = |text: &str| positive(text, &format!("{text} is no number above 0"));
    if let Some(file) = text.strip_prefix("trace:") {
        return Ok(LengthsArg::OfTrace(file.into()));
    }
    let words: Vec<&str> = text.split(':').collect();
    let are = match words[..] {
        [fixed] => Lengths::Fixed(time(fixed).map_err(|_| expected)?),
        ["lognormal", median, sigma] => {
            let (median_ns, sigma) = (time(median)?, number(sigma)?);
            if sigma > MOST_SIGMA {
                return Err(format!(
                    "a sigma of {sigma} spreads lengths over more than is between a nanosecond \
                     and an hour: expected up to {MOST_SIGMA}"
                ));
            }
            Lengths::Lognormal { median_ns, sigma }
        }
        ["exponential", ref more @ ..] if (1..=2).contains(&more.len()) => Lengths::Exponential {
            least_ns: if more.len() == 2 { time(more[0])? } else { 0.0 },
            mean_ns: time(more[more.len() - 1])?,
        },
        ["pareto", least, alpha] => Lengths::Pareto {
            least_ns: time(least)?,
            alpha: number(alpha)?,
        },
        _ => return Err(expected.to_owned()),
    };
    Ok(LengthsArg::Are(are))
}

/// `300`, `300/s`: events in a second.
fn rate(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches("/s").trim_end_matches("Hz");
    positive(number, "expected events in a second, such as 300")
}

fn share(text: &str) -> Result<f64, String> {
    let expected = "expected a share in percent above 0, such as 80%";
    match positive(text.trim().trim_end_matches('%'), expected)? {
        pct if pct <= 100.0 => Ok(pct / 100.0),
        _ => Err(expected.to_owned()),
    }
}

/// Checks that a component leaves time of a CPU, and that its jitter leaves a period.
///
/// # Errors
/// What is wrong, and what to do.
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

/// Checks that components, each of which leaves time, do so together.
///
/// # Errors
/// Names the first CPU of which nothing is left.
pub(super) fn check_together(components: &[Component], cpus: &[u32]) -> Result<(), BadInput> {
    let asked = |cpu: &u32| -> f64 {
        let is_on = |one: &&Component| one.cpus.as_ref().is_none_or(|own| own.contains(cpu));
        let on_it = components.iter().filter(is_on);
        on_it.filter_map(Component::asks_for).sum()
    };
    match cpus.iter().find(|cpu| asked(cpu) >= 1.0) {
        None => Ok(()),
        Some(cpu) => Err(BadInput(format!(
            "the components together take {:.0} % of CPU {cpu} and leave nothing: fewer events, \
             or shorter ones",
            asked(cpu) * 100.0
        ))),
    }
}

/// An option of a component with its value.
#[derive(Debug, Clone)]
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

use ComponentOption as Opt;

type Parser = fn(&str) -> Result<ComponentOption, String>;

/// Name, value (none for a flag), help and parser.
const OPTIONS: [(&str, &str, &str, Parser); 8] = [
    ("period", "TIME", "Events at equal distances", |text| {
        units::positive_duration(text).map(Opt::Period)
    }),
    (
        "poisson",
        "RATE",
        "Events at random times, so many in a second",
        |text| rate(text).map(Opt::Poisson),
    ),
    (
        "length",
        "LENGTH",
        "How long they are: 25us, lognormal:MEDIAN:SIGMA (sd of the natural logarithm), \
         exponential:[LEAST:]MEAN, pareto:LEAST:ALPHA, trace:FILE (as in a recording) [default: \
         10us]",
        |text| lengths(text).map(Opt::Length),
    ),
    (
        "phase",
        "TIME",
        "When the first comes [default: at random within the period]",
        |text| units::duration(text).map(Opt::Phase),
    ),
    (
        "jitter",
        "TIME",
        "Standard deviation of each from where it is due [default: 0]",
        |text| units::duration(text).map(Opt::Jitter),
    ),
    (
        "share",
        "PCT",
        "Share of the periods that have their event [default: 100%]",
        |text| share(text).map(Opt::Share),
    ),
    ("on", "LIST", "On these CPUs of the trace only", |text| {
        units::cpu_list(text).map(Opt::On)
    }),
    (
        "common",
        "",
        "The same events at the same times on all its CPUs",
        |_| Ok(Opt::Common),
    ),
];

const HEADING: &str = "Components (several, in a row; what follows --period or --poisson is of it)";

impl Args for ComponentSpecs {
    fn augment_args(command: Command) -> Command {
        command.args(OPTIONS.map(|(name, value, help, parser)| {
            let arg = Arg::new(name)
                .long(name)
                .help(help)
                .action(ArgAction::Append)
                .help_heading(HEADING)
                .value_parser(parser);
            match value {
                "" => arg.num_args(0).default_missing_value("true"),
                value => arg.value_name(value),
            }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ComponentSpecs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let placed = OPTIONS.iter().flat_map(|(name, ..)| {
            let values = matches.get_many::<ComponentOption>(name);
            let places = matches.indices_of(name).into_iter().flatten();
            places.zip(values.into_iter().flatten().cloned())
        });
        let mut all: Vec<(usize, ComponentOption)> = placed.collect();
        all.sort_by_key(|(place, _)| *place);
        let mut parts: Vec<ComponentSpec> = Vec::new();
        for (_, option) in all {
            add(&mut parts, option).map_err(|text| {
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

fn begin(parts: &mut Vec<ComponentSpec>, arrivals: Arrivals) {
    let ten_us = Lengths::Fixed(10_000.0);
    parts.push(ComponentSpec {
        component: Component::new(arrivals, ten_us.clone()),
        lengths: LengthsArg::Are(ten_us),
    });
}

fn add(parts: &mut Vec<ComponentSpec>, option: ComponentOption) -> Result<(), String> {
    let ns = |time: Duration| time.as_nanos() as f64;
    match option {
        Opt::Period(period) => {
            let arrivals = Arrivals::Periodic {
                period_ns: ns(period),
                phase_ns: None,
                jitter_ns: 0.0,
                share: 1.0,
            };
            begin(parts, arrivals);
            return Ok(());
        }
        Opt::Poisson(per_s) => {
            begin(parts, Arrivals::Poisson { per_s });
            return Ok(());
        }
        _ => {}
    }
    let Some(part) = parts.last_mut() else {
        return Err("a component begins with --period or --poisson".to_owned());
    };
    let component = &mut part.component;
    match (option, &mut component.arrivals) {
        (Opt::Length(given), _) => part.lengths = given,
        (Opt::On(list), _) => component.cpus = Some(list.iter().collect()),
        (Opt::Common, _) => component.common = true,
        (Opt::Phase(time), Arrivals::Periodic { phase_ns, .. }) => *phase_ns = Some(ns(time)),
        (Opt::Jitter(time), Arrivals::Periodic { jitter_ns, .. }) => *jitter_ns = ns(time),
        (Opt::Share(given), Arrivals::Periodic { share, .. }) => *share = given,
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
        let parts = matches.and_then(|matches| ComponentSpecs::from_arg_matches(&matches));
        parts
            .map(|parts| parts.0)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn options_belong_to_the_component_before() {
        let parts = parse(
            "--period 10ms --length 25us --jitter 2us --poisson 300 --length pareto:1us:1.5 \
             --common --period 4ms --phase 1ms --share 50% --on 1,3",
        )
        .unwrap();
        let periodic = |period_ns, phase_ns, jitter_ns, share| Arrivals::Periodic {
            period_ns,
            phase_ns,
            jitter_ns,
            share,
        };
        let arrivals: Vec<Arrivals> = parts.iter().map(|p| p.component.arrivals.clone()).collect();
        let expected = [
            periodic(10e6, None, 2_000.0, 1.0),
            Arrivals::Poisson { per_s: 300.0 },
            periodic(4e6, Some(1e6), 0.0, 0.5),
        ];
        assert_eq!(arrivals, expected);
        let common: Vec<bool> = parts.iter().map(|part| part.component.common).collect();
        assert_eq!(common, [false, true, false]);
        assert_eq!(parts[0].lengths, LengthsArg::Are(Lengths::Fixed(25_000.0)));
        assert_eq!(parts[2].lengths, LengthsArg::Are(Lengths::Fixed(10_000.0)));
        assert_eq!(parts[2].component.cpus, Some(vec![1, 3]));
    }

    #[test]
    fn options_without_their_component_and_bad_values_are_refused() {
        for (line, said) in [
            ("--length 5us", "begins with --period"),
            ("--poisson 5 --phase 1ms", "for --period"),
            ("--poisson 0", "events in a second"),
            ("--poisson x", "events in a second"),
            ("--poisson NaN", "events in a second"),
            ("--poisson -1", ""),
            ("--period 0s", ""),
            ("--period NaN", ""),
            ("--period 1ms --length gamma:3", "lognormal:MEDIAN"),
            ("--period 1ms --length 0us", "lognormal:MEDIAN"),
            ("--period 1ms --share 0", "share in percent"),
            ("--period 1ms --share NaN", "share in percent"),
            ("--poisson 5 --length lognormal:5us:11", "up to 10"),
            ("--poisson 5 --length pareto:1us:nan", "no number above 0"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(said), "{line}: {error}");
        }
    }

    #[test]
    fn components_that_leave_nothing_of_a_cpu_are_refused() {
        for (line, said) in [
            ("--period 10us --length 25us", "every 10.0 us"),
            ("--period 10us --length 10us", "leave nothing"),
            (
                "--poisson 1e6 --length exponential:2us",
                "times in a second",
            ),
            ("--poisson 10 --length pareto:1ms:0.1", "leave nothing"),
            ("--period 1ms --jitter 2ms", "--poisson"),
            ("--period 10us --share 10% --length 25us", ""),
        ] {
            let mut part = parse(line).unwrap().remove(0);
            if let LengthsArg::Are(lengths) = part.lengths {
                part.component.lengths = lengths;
            }
            match check(&part.component) {
                Ok(()) => assert_eq!(said, "", "{line}"),
                Err(error) => assert!(error.to_string().contains(said), "{line}: {error}"),
            }
        }
    }

    #[test]
    fn lengths_are_a_time_a_distribution_or_a_trace() {
        let exponential = |least_ns, mean_ns| Lengths::Exponential { least_ns, mean_ns };
        for (text, expected) in [
            ("25us", Lengths::Fixed(25_000.0)),
            (
                "lognormal:5us:0.8",
                Lengths::Lognormal {
                    median_ns: 5_000.0,
                    sigma: 0.8,
                },
            ),
            ("exponential:5us", exponential(0.0, 5_000.0)),
            ("exponential:1us:5us", exponential(1_000.0, 5_000.0)),
        ] {
            assert_eq!(lengths(text), Ok(LengthsArg::Are(expected)));
        }
        let trace = LengthsArg::OfTrace("a.sbj".into());
        assert_eq!(lengths("trace:a.sbj"), Ok(trace));
        for text in [
            "",
            "0us",
            "pareto:1us",
            "pareto:1us:-1",
            "lognormal:5us:x",
            "exponential:1us:2us:3us",
            "5 parsecs",
        ] {
            assert!(lengths(text).is_err(), "{text}");
        }
    }
}
