// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The conditions of a sweep: every combination of what was listed, in the order of the
//! lists. The first one is the baseline.

use std::path::{Path, PathBuf};

use clap::Args;
use sandbag_linux::CpuList;
use sandbag_linux::Root;
use sandbag_linux::topology::Topology;
use sandbag_load::method::Feel;
use sandbag_ui::failure::Result;
use sandbag_ui::units::{self, Cpus, plain};
use sandbag_ui::{BadInput, address};
use serde::{Deserialize, Serialize};

/// What is varied.
#[derive(Debug, Clone, Default, Args)]
pub struct ConditionArgs {
    /// Loads, in percent of one CPU (with --speed: of what the speed leaves): 0,20,40
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = units::load)]
    pub load: Vec<f64>,

    /// Speeds of the CPUs: 1,.5,.25
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = speed)]
    pub speed: Vec<f64>,

    /// A load profile, repeated until the program ends (may be given more than once)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["load", "speed"])]
    pub profile: Vec<PathBuf>,

    /// Traces of OS jitter, or none: none,node.sbj
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub jitter: Vec<PathBuf>,

    /// What the program notices of a load or profile: `sandbag load --help`
    #[arg(long, value_name = "WHAT", value_enum, default_value_t,
          conflicts_with_all = ["speed", "jitter"])]
    pub feel: Feel,

    /// The CPUs: 0,2-3, or all, even, odd, core (one per core) [default: all; of a profile
    /// without --jitter its own]
    #[arg(short, long, value_name = "LIST", value_parser = units::cpus)]
    pub cpus: Option<Cpus>,
}

/// One of them: its name after `@`, and the words for sandbag before `--`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    pub name: String,
    pub words: Vec<String>,
}

impl Condition {
    /// As it may be recorded and shown.
    pub fn public(&self) -> Self {
        Self {
            name: self.name.clone(),
            words: self
                .words
                .iter()
                .map(|word| address::public(word))
                .collect(),
        }
    }
}

fn speed(text: &str) -> Result<f64, String> {
    let number = text.trim();
    let value = match number.strip_suffix('%') {
        Some(pct) => pct.trim().parse::<f64>().map(|pct| pct / 100.0),
        None => number.parse(),
    };
    match value {
        Ok(speed) if speed > 0.0 && speed <= 1.0 => Ok(plain(speed)),
        _ => Err("expected a share of the full speed, above 0 and at most 1: .5 or 50%".to_owned()),
    }
}

/// All conditions.
///
/// # Errors
/// Nothing is varied, or one is named twice.
pub fn conditions(args: &ConditionArgs, root: &Root) -> Result<Vec<Condition>> {
    let topology = Topology::read(root)?;
    let cpus = args.cpus.as_ref().map(|cpus| cpus.on(&topology));
    let all = combine(args, cpus.as_ref(), &topology.usable);
    if all.is_empty() {
        let text = "nothing is varied: give --load 0,30, --speed 1,.5, --profile FILE or --jitter \
                    none,FILE";
        return Err(BadInput(text.to_owned()).into());
    }
    for (at, one) in all.iter().enumerate() {
        let twice = all.iter().take(at).any(|other| other.name == one.name);
        if twice {
            return Err(BadInput(format!("condition {} is there twice", one.name)).into());
        }
    }
    Ok(all)
}

fn combine(args: &ConditionArgs, cpus: Option<&CpuList>, usable: &CpuList) -> Vec<Condition> {
    let feel = (args.feel == Feel::Competitor).then(|| "--feel=competitor".to_owned());
    let on = |mut words: Vec<String>, cpus: Option<&CpuList>| {
        words.extend(feel.clone());
        words.extend(cpus.map(|cpus| format!("--cpus={cpus}")));
        words
    };
    let trace = |file: &PathBuf| {
        let file = Some(file).filter(|file| file.as_os_str() != "none");
        file.map(|file| format!("--jitter={}", text(file)))
    };
    if !args.profile.is_empty() {
        let of = |file: &PathBuf, jitter: Option<&PathBuf>| {
            let name = base_name(file);
            let Some(jitter) = jitter else {
                let words = vec!["replay".into(), text(file), "--loop".into()];
                return Condition {
                    name,
                    words: on(words, cpus),
                };
            };
            // A node at full speed: both parts are held, and judged, as one run.
            let mut words = vec!["slow".into(), "--speed=1".into()];
            words.push(format!("--load={}", text(file)));
            words.extend(trace(jitter));
            Condition {
                name: format!("{name},{}", base_name(jitter)),
                words: on(words, Some(cpus.unwrap_or(usable))),
            }
        };
        let profiles = args.profile.iter();
        let all =
            profiles.flat_map(|file| each(&args.jitter).into_iter().map(move |one| (file, one)));
        return all.map(|(file, jitter)| of(file, jitter)).collect();
    }
    let is_node = !args.speed.is_empty() || !args.jitter.is_empty();
    let mut all = Vec::new();
    for load in each(&args.load) {
        for speed in each(&args.speed) {
            for jitter in each(&args.jitter) {
                let parts = [
                    load.map(|pct| plain(*pct).to_string()),
                    speed.map(|speed| plain(*speed).to_string()),
                    jitter.map(|file| base_name(file)),
                ];
                let parts: Vec<String> = parts.into_iter().flatten().collect();
                let words = if is_node {
                    let speed = plain(speed.copied().unwrap_or(1.0));
                    let mut words = vec!["slow".to_owned(), format!("--speed={speed}")];
                    let load = load.filter(|pct| **pct > 0.0);
                    words.extend(load.map(|pct| format!("--load={}", plain(*pct))));
                    words.extend(jitter.and_then(trace));
                    on(words, Some(cpus.unwrap_or(usable)))
                } else {
                    let Some(load) = load else { continue };
                    on(vec!["load".to_owned(), plain(*load).to_string()], cpus)
                };
                all.push(Condition {
                    name: parts.join(","),
                    words,
                });
            }
        }
    }
    all
}

/// The values of a list, or once none.
fn each<T>(list: &[T]) -> Vec<Option<&T>> {
    if list.is_empty() {
        vec![None]
    } else {
        list.iter().map(Some).collect()
    }
}

fn text(file: &Path) -> String {
    file.to_string_lossy().into_owned()
}

/// The last part of a path, or of a URL without its password.
pub fn base_name(file: &Path) -> String {
    let shown = PathBuf::from(address::public(&file.to_string_lossy()));
    let name = shown.file_name().unwrap_or(shown.as_os_str());
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_in_no_name_and_no_record() {
        for end in ["", "/", "/?instance=a"] {
            let args = ConditionArgs {
                profile: vec![format!("prometheus+http://u:secret@mon:9090{end}").into()],
                ..ConditionArgs::default()
            };
            let all = combine(&args, None, &"0-1".parse().unwrap());
            assert!(all[0].words[1].contains("u:secret@mon"));
            let public = serde_json::to_string(&all[0].public()).unwrap();
            assert!(
                !public.contains("secret") && public.contains("mon:9090"),
                "{public}"
            );
        }
    }

    fn names(args: &ConditionArgs) -> Vec<String> {
        let online: CpuList = "0-1".parse().unwrap();
        let all = combine(args, None, &online);
        all.iter()
            .map(|one| format!("{}: {}", one.name, one.words.join(" ")))
            .collect()
    }

    #[test]
    fn every_combination_is_a_condition() {
        let loads = ConditionArgs {
            load: vec![0.0, 30.0],
            ..ConditionArgs::default()
        };
        assert_eq!(names(&loads), ["0: load 0", "30: load 30"]);
        let alike = ConditionArgs {
            feel: Feel::Competitor,
            ..loads.clone()
        };
        let words = [
            "0: load 0 --feel=competitor",
            "30: load 30 --feel=competitor",
        ];
        assert_eq!(names(&alike), words);
        let all = ConditionArgs {
            speed: vec![1.0, 0.5],
            jitter: vec!["none".into(), "a/node.sbj".into()],
            ..loads
        };
        assert_eq!(
            names(&all),
            [
                "0,1,none: slow --speed=1 --cpus=0,1",
                "0,1,node.sbj: slow --speed=1 --jitter=a/node.sbj --cpus=0,1",
                "0,0.5,none: slow --speed=0.5 --cpus=0,1",
                "0,0.5,node.sbj: slow --speed=0.5 --jitter=a/node.sbj --cpus=0,1",
                "30,1,none: slow --speed=1 --load=30 --cpus=0,1",
                "30,1,node.sbj: slow --speed=1 --load=30 --jitter=a/node.sbj --cpus=0,1",
                "30,0.5,none: slow --speed=0.5 --load=30 --cpus=0,1",
                "30,0.5,node.sbj: slow --speed=0.5 --load=30 --jitter=a/node.sbj --cpus=0,1",
            ]
        );
        let profiles = ConditionArgs {
            profile: vec!["x/quiet.csv".into(), "day.csv".into()],
            ..ConditionArgs::default()
        };
        assert_eq!(
            names(&profiles),
            [
                "quiet.csv: replay x/quiet.csv --loop",
                "day.csv: replay day.csv --loop"
            ]
        );
        let both = ConditionArgs {
            jitter: vec!["none".into(), "node.sbj".into()],
            profile: vec!["day.csv".into()],
            ..ConditionArgs::default()
        };
        assert_eq!(
            names(&both),
            [
                "day.csv,none: slow --speed=1 --load=day.csv --cpus=0,1",
                "day.csv,node.sbj: slow --speed=1 --load=day.csv --jitter=node.sbj --cpus=0,1",
            ]
        );
        assert!(names(&ConditionArgs::default()).is_empty());
    }

    #[test]
    fn speeds_are_shares() {
        assert_eq!([".5", "50%", "1"].map(speed), [Ok(0.5), Ok(0.5), Ok(1.0)]);
        for text in ["0", "1.5", "x", "-1", "nan"] {
            assert!(speed(text).is_err(), "{text}");
        }
    }
}
