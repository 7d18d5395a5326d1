// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands that many hosts can run together, and what of their words is each host's own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args as _, Command, FromArgMatches as _};
use sandbag_linux::{Root, machine};
use sandbag_run::directory::ACHIEVED_CSV;
use sandbag_ui::output::{NODES_JSON, RUN_JSON};

use super::{HostsArgs, of_host};
use crate::course::TaskRecord;

/// A command that knows --hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostsVerb {
    path: &'static [&'static str],
    /// Ending of a host's file; none where it is a directory.
    ending: Option<&'static str>,
    /// It begins at a given time by itself.
    pub has_at: bool,
    /// It can end its command with itself.
    has_kill: bool,
    /// Programs come from a file, and its exit code is theirs.
    pub has_programs: bool,
}

const VERBS: [HostsVerb; 7] = [
    run(&["load"], true),
    run(&["replay"], true),
    run(&["slow"], true),
    file(&["record"], ".csv"),
    file(&["jitter", "record"], ".sbj"),
    run(&["jitter", "replay"], false),
    file(&["audit", "run"], ".json"),
];

const fn run(path: &'static [&'static str], has_at: bool) -> HostsVerb {
    HostsVerb {
        path,
        ending: None,
        has_at,
        has_kill: true,
        has_programs: false,
    }
}

const fn file(path: &'static [&'static str], ending: &'static str) -> HostsVerb {
    HostsVerb {
        path,
        ending: Some(ending),
        has_at: false,
        has_kill: false,
        has_programs: false,
    }
}

#[cfg(test)]
pub(super) fn named(path: &[&str]) -> HostsVerb {
    VERBS.into_iter().find(|verb| verb.path == path).unwrap()
}

/// Ours, and whether a value follows.
const OWN: [(&str, bool); 6] = [
    ("--hosts", false),
    ("--rank", true),
    ("--ranks", true),
    ("--start", true),
    ("--start-timeout", true),
    ("--lost-after", true),
];

/// The command line with our options at those commands.
pub fn augmented(mut command: Command) -> Command {
    for verb in VERBS {
        command = match *verb.path {
            [name] => command.mut_subcommand(name, |c| verb.augment(c)),
            [group, name] => {
                command.mut_subcommand(group, |c| c.mut_subcommand(name, |c| verb.augment(c)))
            }
            _ => command,
        };
    }
    command
}

/// The command that was given, if it is to run on many hosts.
pub fn chosen(matches: &ArgMatches) -> Option<(HostsVerb, HostsArgs)> {
    VERBS.into_iter().find_map(|verb| {
        let own = verb
            .path
            .iter()
            .try_fold(matches, |above, name| above.subcommand_matches(name))?;
        let args = HostsArgs::from_arg_matches(own).ok()?;
        // A file of nodes takes no --at: its host is held until the start.
        let is_nodes_file =
            verb.path == ["slow"] && own.try_get_raw("file").is_ok_and(|words| words.is_some());
        let verb = HostsVerb {
            has_at: verb.has_at && !is_nodes_file,
            has_kill: verb.has_kill && !is_nodes_file,
            has_programs: is_nodes_file,
            ..verb
        };
        args.hosts.then_some((verb, args))
    })
}

impl HostsVerb {
    /// The command with our options, whose help is about its own results.
    fn augment(self, command: Command) -> Command {
        let short = format!(
            "Be one of many hosts: started on each by srun, mpirun or another launcher, with \
             {} DIR, a directory that all of them see",
            self.output_option()
        );
        let results = match self.ending {
            None => "results are in a directory",
            Some(_) => "result is a file",
        };
        let report = self.report_command().map_or_else(String::new, |command| {
            format!(" `{command} DIR` makes one report.")
        });
        let long = format!(
            "{short}\n\nEach host's {results} of its name there. All begin at the same time, \
             and if one fails all end.{report}"
        );
        HostsArgs::augment_args(command)
            .mut_arg("hosts", |option| option.help(short).long_help(long))
    }

    /// The option that says where the results are.
    pub fn output_option(&self) -> &'static str {
        match self.ending {
            None => "--out",
            Some(_) => "--output",
        }
    }

    /// The command that makes one report of what the hosts left, if there is one.
    pub fn report_command(&self) -> Option<&'static str> {
        match (self.ending, self.path) {
            (None, _) => Some("sandbag gather"),
            (Some(_), ["audit", "run"]) => Some("sandbag audit gather"),
            (Some(_), ["jitter", "record"]) => Some("sandbag jitter gather"),
            _ => None,
        }
    }

    /// What it leaves in the directory of a host that says how its programs ended.
    pub(crate) fn record(&self, dir: &Path) -> Option<TaskRecord> {
        match self.ending {
            Some(_) => None,
            None if self.has_programs => Some(TaskRecord::Nodes(dir.join(NODES_JSON))),
            None => Some(TaskRecord::Run(dir.join(RUN_JSON))),
        }
    }

    /// The directory of the experiment.
    pub fn output(&self, words: &[OsString]) -> Option<PathBuf> {
        let mut found = None;
        self.walk(words, |word| {
            if let Word::Output(path) = word {
                found = Some(path.into());
            }
        });
        found
    }

    /// With --force, removes what an earlier experiment left of this host: one that is ended
    /// before it writes must not seem to have its results.
    pub fn remove_own(&self, words: &[OsString], out: &Path, host: &str) {
        let mut own = words.iter().take_while(|word| *word != "--");
        if !own.any(|word| word == "--force") {
            return;
        }
        let path = of_host(out, host, self.ending.unwrap_or_default());
        let results: &[&str] = match self.ending {
            Some(_) => &[""],
            None => &[RUN_JSON, NODES_JSON, ACHIEVED_CSV],
        };
        for name in results {
            let path = if name.is_empty() {
                path.clone()
            } else {
                path.join(name)
            };
            let is_file = std::fs::symlink_metadata(&path).is_ok_and(|meta| !meta.is_dir());
            if is_file {
                let _ = std::fs::remove_file(path);
            }
        }
    }

    /// Why an option about the form of the result does not go with a file of each host.
    pub fn other_form(&self, words: &[OsString]) -> Option<&'static str> {
        let own = words.iter().take_while(|word| *word != "--");
        let next = own
            .clone()
            .skip(1)
            .map(OsString::as_os_str)
            .chain([OsStr::new("")]);
        let is_other = |(word, next): (&OsString, &OsStr)| match split(word) {
            ("--to", true) => word != "--to=json",
            ("--to", false) => next != "json",
            _ => false,
        };
        let is_other = self.path == ["audit", "run"] && own.zip(next).any(is_other);
        is_other.then_some(
            "--to and --hosts: sandbag audit gather reads the JSON that each host leaves; leave \
             --to out, and convert the report (sandbag audit gather DIR -o FILE)",
        )
    }

    /// The words for this host: its own directory or file, and its time; without our options.
    pub fn for_host(
        &self,
        words: &[OsString],
        out: &Path,
        host: &str,
        start_ns: Option<i64>,
    ) -> Vec<OsString> {
        let mut own = Vec::new();
        let rest = self.walk(words, |word| {
            if let Word::Kept(word) = word {
                own.push(word.to_owned());
            }
        });
        own.push(self.output_option().into());
        own.push(of_host(out, host, self.ending.unwrap_or_default()).into());
        if let Some(ns) = start_ns.filter(|_| self.has_at) {
            let (s, ns) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
            own.push(format!("--at=@{s}.{ns:09}").into());
        }
        // What an experiment started ends with it.
        let kill = OsStr::new("--kill");
        if self.has_kill && rest + 1 < words.len() && own.iter().all(|word| word != kill) {
            own.push(kill.to_owned());
        }
        own.extend_from_slice(&words[rest..]);
        own
    }

    /// Calls `each` with every word before the command's; returns where that begins.
    fn walk<'w>(&self, words: &'w [OsString], mut each: impl FnMut(Word<'w>)) -> usize {
        let mut at = 0;
        while let Some(word) = words.get(at).filter(|word| *word != "--") {
            at += 1;
            if let Some((is_alone, value)) = self.output_value(word) {
                let path = if is_alone {
                    at += 1;
                    words.get(at - 1).map(OsString::as_os_str)
                } else {
                    Some(value)
                };
                path.into_iter().for_each(|path| each(Word::Output(path)));
                continue;
            }
            let (name, has_value) = split(word);
            match OWN.iter().find(|(own, _)| name == *own) {
                Some((_, takes)) => at += usize::from(*takes && !has_value),
                None => each(Word::Kept(word)),
            }
        }
        at
    }

    /// Whether this is the option of the output, alone or with its value.
    fn output_value<'w>(&self, word: &'w OsStr) -> Option<(bool, &'w OsStr)> {
        let (name, has_value) = split(word);
        if name == self.output_option() {
            let value = &word.as_bytes()[name.len()..];
            return Some((
                !has_value,
                OsStr::from_bytes(value.strip_prefix(b"=").unwrap_or(value)),
            ));
        }
        let short = word
            .as_bytes()
            .strip_prefix(b"-o")
            .filter(|_| self.ending.is_some())?;
        let value = short.strip_prefix(b"=").unwrap_or(short);
        Some((short.is_empty(), OsStr::from_bytes(value)))
    }
}

enum Word<'w> {
    Kept(&'w OsString),
    Output(&'w OsStr),
}

/// The name of a long option, and whether its value is in the same word.
fn split(word: &OsStr) -> (&str, bool) {
    let text = word.to_str().unwrap_or_default();
    match text.split_once('=') {
        Some((name, _)) if text.starts_with("--") => (name, true),
        _ => (text, false),
    }
}

/// Why an option that says itself when to begin does not go with the common start.
pub fn other_start(words: &[OsString]) -> Option<&'static str> {
    let mut own = words.iter().take_while(|word| *word != "--");
    own.find_map(|word| match split(word).0 {
        "--at" => Some(
            "--at and --hosts: the hosts agree on their start themselves; leave --at out, or add \
             --start each",
        ),
        "--start-on" => Some(
            "--start-on and --hosts: the loads begin at a common time, not when CMD says so; leave \
             --start-on out, or add --start each",
        ),
        _ => None,
    })
}

/// Options whose value is the name of a result.
const NAMING: [&str; 7] = [
    "-o",
    "--output",
    "--out",
    "--html",
    "--junit",
    "--metrics-file",
    "--json",
];

/// An option that names the same file on all hosts, besides that of the output, `out`.
pub fn common_name(words: &[OsString], out: &Path, host: &str) -> Option<&'static str> {
    let own = words.iter().take_while(|word| *word != "--");
    let mut own = own.peekable();
    while let Some(word) = own.next() {
        let (name, has_value) = split(word);
        let Some(known) = NAMING[3..].iter().find(|known| name == **known) else {
            continue;
        };
        let value = if has_value {
            OsStr::from_bytes(&word.as_bytes()[name.len() + 1..])
        } else if *known != "--json" {
            own.next().map_or(OsStr::new("-"), |word| word)
        } else {
            OsStr::new("-")
        };
        // A metrics file is read on its host. That every host sees it is certain below `out`, and
        // in the directory of the command, if that has `out` as well.
        let value_path = Path::new(value);
        let is_beside = value_path.is_relative() && out.is_relative();
        if *known == "--metrics-file" && !is_beside && !is_below(value_path, out) {
            continue;
        }
        let value = value.to_string_lossy();
        if value != "-" && !value.starts_with("/dev/") && !value.contains(host) {
            return Some(known);
        }
    }
    None
}

fn is_below(path: &Path, dir: &Path) -> bool {
    let whole = |path| std::path::absolute(path).ok();
    whole(path)
        .zip(whole(dir))
        .is_some_and(|(path, dir)| path.starts_with(dir))
}

/// The words with `%h` in names of results replaced by this host's name.
pub fn with_host_in_names(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let end = words
        .iter()
        .position(|word| word == "--")
        .unwrap_or(words.len());
    for at in 0..end {
        let (name, has_value) = split(&words[at]);
        // The value of --json is in its word.
        let follows = at > 0 && NAMING[..6].iter().any(|known| words[at - 1] == *known);
        let is_joined = name.starts_with("-o");
        let is_named = follows || is_joined || (has_value && NAMING.contains(&name));
        if is_named && words[at].as_bytes().windows(2).any(|two| two == b"%h") {
            let host = machine::host(&Root::default()).unwrap_or_default();
            words[at] = replaced(&words[at], &host);
        }
    }
    words
}

fn replaced(word: &OsStr, host: &str) -> OsString {
    let mut rest = word.as_bytes();
    let mut out = Vec::new();
    while let Some(at) = rest.windows(2).position(|two| two == b"%h") {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(host.as_bytes());
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandbag_ui::messages::Messages;

    use super::super::{StartWhen, main};
    use super::named as verb;
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn each_host_gets_its_own_directory_and_time() {
        let given = words(
            "-q load 50 --hosts --rank=1 --ranks 2 --out run -d 1m --start common -- app --out x",
        );
        let load = verb(&["load"]);
        assert_eq!(load.output(&given), Some("run".into()));
        let own = load.for_host(
            &given,
            Path::new("run"),
            "n1",
            Some(1_500_000_000_250_000_000),
        );
        assert_eq!(
            own,
            words("-q load 50 -d 1m --out run/n1 --at=@1500000000.250000000 --kill -- app --out x")
        );
        let given = words("load 50 --kill --out run -- app");
        let own = load.for_host(&given, Path::new("run"), "n1", None);
        assert_eq!(own, words("load 50 --kill --out run/n1 -- app"));
        assert_eq!(load.output(&words("load 50 --out=a/b")), Some("a/b".into()));
        assert_eq!(load.output(&words("load 50 -- app --out x")), None);
        let jitter = verb(&["jitter", "replay"]);
        let own = jitter.for_host(
            &words("jitter replay a -- app"),
            Path::new("run"),
            "n1",
            Some(5),
        );
        assert_eq!(own, words("jitter replay a --out run/n1 --kill -- app"));
    }

    #[test]
    fn a_measurement_is_a_file_per_host() {
        let audit = verb(&["audit", "run"]);
        for given in [
            "audit run --quick -o all",
            "audit run --quick -oall",
            "audit run --quick --output=all",
        ] {
            let given = words(&format!("{given} --hosts"));
            assert_eq!(audit.output(&given), Some("all".into()));
            let own = audit.for_host(&given, Path::new("all"), "n1", Some(5));
            assert_eq!(own, words("audit run --quick --output all/n1.json"));
        }
    }

    #[test]
    fn another_start_than_the_common_one_is_refused_at_once() {
        let args = |start| HostsArgs {
            hosts: true,
            // No such host: what is not refused before is refused for this.
            rank: Some(1),
            ranks: Some(1),
            start,
            start_timeout: Duration::ZERO,
            lost_after: Duration::ZERO,
        };
        let refusal = |start, text: &str| {
            let messages = Messages::new(true, 0);
            main(&args(start), &verb(&["load"]), &words(text), &messages)
                .unwrap_err()
                .line()
        };
        for text in ["load 5 --at=@1", "load 5 --start-on 3 -- app"] {
            let common = refusal(StartWhen::Common, text);
            assert!(common.contains("--start each"), "{common}");
            let each = refusal(StartWhen::Each, text);
            assert!(each.contains("ranks are 0 to"), "{each}");
        }
        let of_app = refusal(StartWhen::Common, "load 5 -- app --at 5");
        assert!(of_app.contains("ranks are 0 to"), "{of_app}");
    }

    #[test]
    fn another_form_of_an_audit_is_refused() {
        let args = HostsArgs {
            hosts: true,
            rank: Some(0),
            ranks: Some(1),
            start: StartWhen::Each,
            start_timeout: Duration::ZERO,
            lost_after: Duration::ZERO,
        };
        let messages = Messages::new(true, 0);
        for to in ["--to csv", "--to=junit"] {
            let given = words(&format!("audit run {to} -o all --hosts"));
            let error = main(&args, &verb(&["audit", "run"]), &given, &messages).unwrap_err();
            assert!(error.line().contains("--to out"), "{}", error.line());
            assert!(!Path::new("all").exists());
        }
        assert_eq!(
            verb(&["load"]).other_form(&words("load 5 -- app --to csv")),
            None
        );
        // What it leaves anyway.
        for to in ["--to json", "--to=json"] {
            let given = words(&format!("audit run {to} -o all"));
            assert_eq!(verb(&["audit", "run"]).other_form(&given), None);
        }
        let of_app = words("audit run -o all -- --to csv");
        assert_eq!(verb(&["audit", "run"]).other_form(&of_app), None);
    }

    #[test]
    fn the_host_stands_in_names_of_results_only() {
        let host = machine::host(&Root::default()).unwrap();
        let given = words(
            "audit run -o d/%h.json -oe/%h --json=%h --command a=%h --metrics-file %h.prom \
             --output=%h-%h -- app -o %h",
        );
        let got = with_host_in_names(given.into_iter());
        let text = format!(
            "audit run -o d/{host}.json -oe/{host} --json={host} --command a=%h \
             --metrics-file {host}.prom --output={host}-{host} -- app -o %h"
        );
        assert_eq!(got, words(&text));
    }

    #[test]
    fn one_file_for_all_hosts_is_found() {
        let found = |text: &str| common_name(&words(text), Path::new("/s"), "n1");
        assert_eq!(found("load 5 --json=all.json -d 1s"), Some("--json"));
        assert_eq!(found("audit run --html all.html"), Some("--html"));
        let metrics = Some("--metrics-file");
        assert_eq!(found("load 5 --metrics-file /s/a.prom"), metrics);
        assert_eq!(found("load 5 --metrics-file=/s/a.prom -d 1s"), metrics);
        for text in [
            "load 5 --json=n1.json",
            "load 5 --json -d 1s",
            "load 5 --json=- -d 1s",
            "load 5 --metrics-file /s/n1.prom",
            // On each host's own disk.
            "load 5 --metrics-file /var/lib/prometheus/node-exporter/sandbag.prom",
            "load 5 --metrics-file=/set/a.prom",
            "audit run --html /dev/stdout",
            "load 5 -- app --json=x",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
        let beside = common_name(&words("load 5 --metrics-file a.prom"), Path::new("r"), "n1");
        assert_eq!(beside, metrics);
    }
}
