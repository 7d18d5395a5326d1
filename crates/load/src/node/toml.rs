// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several nodes in a file; docs/reference/nodes.md describes its keys.
//!
//! Defaults stand in a table of their own, because a key that is written below
//! a `[[node]]` belongs to that node. Files (`profile`, `cwd`) are named from the
//! directory of the nodes file. A command that is one text is split into words
//! as a shell would, but no shell runs it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue, ValueDeserializer};
use sandbag_input::open_input;
use sandbag_linux::CpuList;
use sandbag_linux::cpulist::MAX_CPU;
use sandbag_linux::launcher::is_same_host;
use sandbag_ui::address::SCHEMES;
use serde::Deserialize;

use crate::node::environment;
use crate::node::spec::{Cpus, NodeCourse, NodeName, NodeSpec, Origin, SpecError};
use crate::node::speed::{BadSpeed, Speed, Speeds};

/// Size of a file above which it describes no nodes.
const LARGEST: u64 = 1 << 20;

/// Keys that each node has for itself.
const OWN: [&str; 6] = ["name", "host", "cpus", "cores", "command", "commands"];
/// Keys that `[defaults]` can have as well, besides options of methods.
const SHARED: [&str; 5] = ["speed", "profile", "method", "env", "cwd"];

/// What can stand in a nodes file besides the keys of a node itself.
#[derive(Debug, Clone, Copy)]
pub struct Vocabulary<'a> {
    pub methods: &'a [&'a str],
    /// Options of methods; their values are handed on as text.
    pub options: &'a [&'a str],
    /// This host: nodes of others are left out.
    pub host: &'a str,
}

/// Several nodes that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct NodesFile {
    /// At least one; no name and no CPU twice.
    pub nodes: Vec<NodeSpec>,
}

impl NodesFile {
    /// Reads a file, or standard input for `-`.
    pub fn read(path: &Path, vocabulary: &Vocabulary<'_>) -> Result<Self, SpecError> {
        let is_stdin = path.as_os_str() == "-";
        let (name, dir) = if is_stdin {
            ("standard input".to_owned(), PathBuf::new())
        } else {
            let dir = path.parent().map(Path::to_owned);
            (path.display().to_string(), dir.unwrap_or_default())
        };
        let text = NodesText::new("", &name);
        let fault = |what: String, remedy| text.fault(None, "", what, remedy);
        let mut bytes = Vec::new();
        let read = if is_stdin {
            std::io::stdin().take(LARGEST + 1).read_to_end(&mut bytes)
        } else {
            open_input(path).and_then(|f| f.take(LARGEST + 1).read_to_end(&mut bytes))
        };
        read.map_err(|cause| fault(cause.to_string(), "name a file that can be read"))?;
        if bytes.len() as u64 > LARGEST {
            let what = format!("it is larger than {LARGEST} bytes");
            return Err(fault(what, "name a nodes file"));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| fault("it is not UTF-8 text".to_owned(), "save it as UTF-8"))?;
        Self::parse(&text, &name, &dir, vocabulary)
    }

    /// Reads a text; `name` is for messages, files are named from `dir`. An
    /// error is the first fault.
    pub fn parse(
        text: &str,
        name: &str,
        dir: &Path,
        vocabulary: &Vocabulary<'_>,
    ) -> Result<Self, SpecError> {
        let file = NodesText::new(text, name);
        let document = DeTable::parse(text).map_err(|error| {
            let at = error.span().map(|span| span.start);
            file.fault(at, "", error.message(), "mend the TOML (https://toml.io)")
        })?;
        let top = Fields::of(&file, document.get_ref(), 0);
        for field in &top.fields {
            match field.key {
                "node" | "defaults" => {}
                key if knows(key, vocabulary) => {
                    return Err(field.fault(
                        "it stands before the first [[node]]",
                        "put it below [[node]], or below [defaults] for all nodes",
                    ));
                }
                _ => return Err(field.unknown(&["node", "defaults"])),
            }
        }
        let empty = DeTable::new();
        let defaults = match top
            .get("defaults")
            .map(|field| (field, field.value.get_ref()))
        {
            None => Fields::of(&file, &empty, 0),
            Some((_, DeValue::Table(table))) => Fields::of(&file, table, 0),
            Some((field, _)) => {
                let remedy = "write [defaults] on a line of its own";
                return Err(field.fault("expected a table", remedy));
            }
        };
        defaults.check_keys(vocabulary, true)?;
        let (mut nodes, mut others) = (Vec::new(), 0);
        if let Some(field) = top.get("node") {
            let wrong = |remedy| field.fault("expected a list of tables", remedy);
            let DeValue::Array(tables) = field.value.get_ref() else {
                return Err(wrong("write [[node]] with two brackets"));
            };
            for table in tables.iter() {
                let DeValue::Table(fields) = table.get_ref() else {
                    return Err(wrong("write [[node]] on a line of its own"));
                };
                let fields = Fields::of(&file, fields, table.span().start);
                let node = fields.node(&defaults, dir, vocabulary)?;
                match fields.get("host").map(|field| field.string()).transpose()? {
                    Some(host) if !is_same_host(&host, vocabulary.host) => others += 1,
                    _ => nodes.push(node),
                }
            }
        }
        if nodes.is_empty() && others > 0 {
            let what = format!(
                "all {others} nodes in it are of other hosts than {}",
                vocabulary.host
            );
            return Err(file.fault(None, "host", what, "give the name of this host"));
        }
        if nodes.is_empty() {
            let remedy = "write a [[node]] with name, cpus and speed";
            return Err(file.fault(None, "", "there are no nodes in it", remedy));
        }
        check_disjoint(&nodes)?;
        Ok(Self { nodes })
    }
}

/// No name and no CPU may be in two nodes.
fn check_disjoint(nodes: &[NodeSpec]) -> Result<(), SpecError> {
    let mut names: BTreeMap<&NodeName, u64> = BTreeMap::new();
    let mut owners: BTreeMap<u32, &NodeSpec> = BTreeMap::new();
    for node in nodes {
        if let Some(line) = names.insert(&node.name, node.origin.line) {
            let what = format!("`{}` is the name of another node (line {line})", node.name);
            return Err(node
                .origin
                .fault("name", what, "give each node a name of its own"));
        }
        let Cpus::List(cpus) = &node.cpus else {
            continue;
        };
        for cpu in cpus.iter() {
            if let Some(other) = owners.insert(cpu, node) {
                let (name, line) = (&other.name, other.origin.line);
                let what = format!("CPU {cpu} is also one of node `{name}` (line {line})");
                return Err(node.origin.fault("cpus", what, "give each CPU to one node"));
            }
        }
    }
    Ok(())
}

fn knows(key: &str, vocabulary: &Vocabulary<'_>) -> bool {
    OWN.contains(&key) || SHARED.contains(&key) || vocabulary.options.contains(&key)
}

/// The name of a text, and where its lines begin.
struct NodesText {
    name: Arc<str>,
    /// Byte offset of each line but the first.
    lines: Vec<usize>,
}

impl NodesText {
    fn new(text: &str, name: &str) -> Self {
        Self {
            name: name.into(),
            lines: text.match_indices('\n').map(|(at, _)| at + 1).collect(),
        }
    }

    /// Line of a byte, from 1.
    fn line(&self, at: usize) -> u64 {
        self.lines.partition_point(|begin| *begin <= at) as u64 + 1
    }

    fn fault(
        &self,
        at: Option<usize>,
        key: &str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> SpecError {
        SpecError {
            file: Some(Arc::clone(&self.name)),
            line: at.map(|at| self.line(at)),
            key: short(key),
            what: what.into(),
            remedy: remedy.into(),
            not_possible: false,
        }
    }
}

/// A value in a message: short and printable.
fn short(text: &str) -> String {
    text.escape_debug().take(60).collect()
}

/// `did you mean cpus`, or all that are known.
fn nearest(word: &str, known: &[&str]) -> String {
    /// Below this two words have little to do with each other.
    const LEAST_LIKENESS: f64 = 0.75;
    let likeness = |other: &str| strsim::jaro_winkler(&word.to_lowercase(), other);
    let all = known.iter().map(|other| (likeness(other), *other));
    match all.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((likeness, other)) if likeness >= LEAST_LIKENESS => format!("did you mean {other}?"),
        _ => format!("known are {}", known.join(", ")),
    }
}

/// A single value as it would be written on the command line; a number with the digits
/// that it has in the file.
fn scalar(value: &Spanned<DeValue<'_>>) -> Option<String> {
    Some(match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .ok()?
            .to_string(),
        _ => return None,
    })
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected CPUs")]
enum CpusValue {
    Text(String),
    One(u32),
    List(Vec<u32>),
}

/// One key of a table and its value.
#[derive(Clone, Copy)]
struct Field<'t> {
    file: &'t NodesText,
    key: &'t str,
    /// Byte at which the key stands.
    at: usize,
    value: &'t Spanned<DeValue<'t>>,
}

impl<'t> Field<'t> {
    fn fault(&self, what: impl Into<String>, remedy: impl Into<String>) -> SpecError {
        self.file.fault(Some(self.at), self.key, what, remedy)
    }

    fn unknown(&self, known: &[&str]) -> SpecError {
        self.fault("it is not a known key", nearest(self.key, known))
    }

    fn read<T: Deserialize<'t>>(&self, remedy: &str) -> Result<T, SpecError> {
        T::deserialize(ValueDeserializer::from(self.value.clone()))
            .map_err(|error| self.fault(error.message(), remedy))
    }

    fn scalar(&self, value: &Spanned<DeValue<'_>>, remedy: &str) -> Result<String, SpecError> {
        let what = "expected a text, a number, true or false";
        scalar(value).ok_or_else(|| self.fault(what, remedy))
    }

    fn string(&self) -> Result<String, SpecError> {
        self.read(&format!("write it in quotes: {} = \"...\"", self.key))
    }

    fn bad_speed(&self, bad: BadSpeed) -> SpecError {
        self.fault(format!("`{}`: {}", bad.value, bad.reason), bad.remedy)
    }

    fn name(&self) -> Result<NodeName, SpecError> {
        let name = self.string()?;
        name.parse().map_err(|_| {
            let what = format!("`{}` cannot be the name of a file", short(&name));
            let remedy = "write letters, digits, - _ and . (at most 40), beginning with a letter \
                          or digit";
            self.fault(what, remedy)
        })
    }

    fn cpus(&self) -> Result<CpuList, SpecError> {
        let remedy = "write CPUs such as \"0,2-3\", or [0, 2, 3]";
        let bad = |shown: &str| self.fault(format!("`{shown}` is not a list of CPUs"), remedy);
        let mut cpus = match self.read(remedy)? {
            CpusValue::Text(text) => {
                let list: CpuList = text.parse().map_err(|_| bad(&short(&text)))?;
                list.iter().collect()
            }
            CpusValue::One(cpu) => vec![cpu],
            CpusValue::List(cpus) => cpus,
        };
        cpus.sort_unstable();
        if let Some(two) = cpus.windows(2).find(|two| two[0] == two[1]) {
            return Err(self.fault(format!("CPU {} is named twice", two[0]), remedy));
        }
        match cpus.last() {
            None => Err(self.fault("it names no CPU", remedy)),
            Some(last) if *last > MAX_CPU => Err(bad(&last.to_string())),
            Some(_) => Ok(cpus.into_iter().collect()),
        }
    }

    fn cores(&self) -> Result<usize, SpecError> {
        let remedy = "write how many, such as cores = 2";
        match self.read::<u32>(remedy)? {
            cores @ 1..=MAX_CPU => Ok(cores as usize),
            _ => Err(self.fault("that is no number of cores", remedy)),
        }
    }

    fn speeds(&self) -> Result<Speeds, SpecError> {
        let remedy = "write 0.5, \"50%\", \"1200MHz\", or { \"0\" = 1, \"1-2\" = 0.8 }";
        let expected = || self.fault("expected a speed", remedy);
        let parsed = match self.value.get_ref() {
            DeValue::Table(parts) => {
                let mut speeds = Vec::new();
                for (cpus, speed) in parts.iter() {
                    let list = cpus.get_ref().parse().map_err(|_| {
                        let what = format!("`{}` is not a list of CPUs", short(cpus.get_ref()));
                        self.fault(what, "write \"2-3\" = 0.4")
                    })?;
                    let speed = scalar(speed).ok_or_else(expected)?.parse::<Speed>();
                    speeds.push((list, speed.map_err(|bad| self.bad_speed(bad))?));
                }
                Speeds::per_cpu(speeds)
            }
            _ => scalar(self.value).ok_or_else(expected)?.parse(),
        };
        parsed.map_err(|bad| self.bad_speed(bad))
    }

    fn method(&self, vocabulary: &Vocabulary<'_>) -> Result<String, SpecError> {
        let name = self.string()?;
        if vocabulary.methods.contains(&name.as_str()) {
            return Ok(name);
        }
        let what = format!("`{}` is not a method", short(&name));
        Err(self.fault(what, nearest(&name, vocabulary.methods)))
    }

    fn variables(&self) -> Result<BTreeMap<String, String>, SpecError> {
        let remedy = "write env = { NAME = \"value\" }";
        let DeValue::Table(table) = self.value.get_ref() else {
            return Err(self.fault("expected a table", remedy));
        };
        let mut variables = BTreeMap::new();
        for (name, value) in table.iter() {
            let name: &str = name.get_ref();
            if name.is_empty() || name.contains('=') {
                let what = format!("no variable can have the name `{}`", short(name));
                return Err(self.fault(what, "write another"));
            }
            if environment::ALL.contains(&name) {
                let what = format!("sandbag sets {name} itself");
                return Err(self.fault(what, "leave it out"));
            }
            variables.insert(name.to_owned(), self.scalar(value, remedy)?);
        }
        Ok(variables)
    }

    /// The words of one command.
    fn words(&self, command: &Spanned<DeValue<'_>>) -> Result<Vec<String>, SpecError> {
        let words = match command.get_ref() {
            DeValue::String(text) => shlex::split(text)
                .ok_or_else(|| self.fault("a quote is not closed", "close it, or write a list"))?,
            DeValue::Array(words) => words
                .iter()
                .map(|word| self.scalar(word, COMMAND_REMEDY))
                .collect::<Result<_, _>>()?,
            _ => {
                let what = "expected a command: a text, or a list of words";
                return Err(self.fault(what, COMMAND_REMEDY));
            }
        };
        match words.first() {
            Some(program) if !program.is_empty() => Ok(words),
            _ => Err(self.fault("the program is missing", COMMAND_REMEDY)),
        }
    }
}

const COMMAND_REMEDY: &str = "write \"./app argument\", or [\"./app\", \"argument\"]";

/// No text may hold a NUL: it could not be handed to a program.
fn has_nul(value: &DeValue<'_>) -> bool {
    match value {
        DeValue::String(text) => text.contains('\0'),
        DeValue::Array(values) => values.iter().any(|value| has_nul(value.get_ref())),
        DeValue::Table(table) => table
            .iter()
            .any(|(key, value)| key.get_ref().contains('\0') || has_nul(value.get_ref())),
        _ => false,
    }
}

/// A table, its keys in the order of the file.
struct Fields<'t> {
    file: &'t NodesText,
    /// Byte at which the table begins.
    at: usize,
    fields: Vec<Field<'t>>,
}

impl<'t> Fields<'t> {
    fn of(file: &'t NodesText, table: &'t DeTable<'t>, at: usize) -> Self {
        let field = |(key, value): (&'t Spanned<_>, _)| Field {
            file,
            key: AsRef::<str>::as_ref(key.get_ref()),
            at: key.span().start,
            value,
        };
        let mut fields: Vec<Field<'t>> = table.iter().map(field).collect();
        fields.sort_by_key(|field| field.at);
        Self { file, at, fields }
    }

    fn get(&self, key: &str) -> Option<Field<'t>> {
        self.fields.iter().find(|field| field.key == key).copied()
    }

    fn check_keys(&self, vocabulary: &Vocabulary<'_>, defaults: bool) -> Result<(), SpecError> {
        for field in &self.fields {
            if defaults && OWN.contains(&field.key) {
                return Err(field.fault(
                    "it cannot be the same for all nodes",
                    "write it below each [[node]]",
                ));
            }
            if !knows(field.key, vocabulary) {
                let own = if defaults { &[][..] } else { &OWN[..] };
                return Err(field.unknown(&[own, &SHARED, vocabulary.options].concat()));
            }
            if has_nul(field.value.get_ref()) {
                return Err(field.fault("there is a NUL character in it", "leave it out"));
            }
        }
        Ok(())
    }

    /// The node that this table describes.
    fn node(
        &self,
        defaults: &Self,
        dir: &Path,
        vocabulary: &Vocabulary<'_>,
    ) -> Result<NodeSpec, SpecError> {
        self.check_keys(vocabulary, false)?;
        let both = || defaults.fields.iter().chain(&self.fields);
        let own_or_default = |key: &str| self.get(key).or_else(|| defaults.get(key));
        let missing = |key: &str, remedy: &str| {
            self.file
                .fault(Some(self.at), key, "the node has none", remedy)
        };
        let line = |field: &Field<'_>| (field.key.to_owned(), self.file.line(field.at));
        let origin = Origin {
            file: Some(Arc::clone(&self.file.name)),
            line: self.file.line(self.at),
            keys: both().map(line).collect(),
        };
        let name = self
            .get("name")
            .ok_or_else(|| missing("name", "write name = \"small\""))?;
        let name = name.name()?;
        let cpus = match (self.get("cpus"), self.get("cores")) {
            (Some(cpus), None) => Cpus::List(cpus.cpus()?),
            (None, Some(cores)) => Cpus::Cores(cores.cores()?),
            (Some(_), Some(cores)) => {
                return Err(cores.fault("the node has cpus as well", "write one of the two"));
            }
            (None, None) => {
                let remedy = "write cpus = \"0-1\", or cores = 2 to have them chosen";
                return Err(missing("cpus", remedy));
            }
        };
        let default_course = defaults.course(dir)?;
        let course = self.course(dir)?.or(default_course).ok_or_else(|| {
            let remedy = "write speed = 0.5, or profile = \"speeds.csv\" for one that changes";
            missing("speed", remedy)
        })?;
        let method = own_or_default("method").map(|field| field.method(vocabulary));
        let cwd = own_or_default("cwd")
            .map(|field| field.string())
            .transpose()?;
        let (mut options, mut env) = (BTreeMap::new(), BTreeMap::new());
        for field in both() {
            if vocabulary.options.contains(&field.key) {
                let value = field.scalar(field.value, "write one value")?;
                // As all files: from the directory of this one.
                let value = match field.key {
                    // A number is one, whatever the files are called.
                    "load" if is_number(&value) => value,
                    "load" if value.contains('=') && !dir.join(&value).is_file() => value,
                    "load" if SCHEMES.iter().any(|scheme| value.starts_with(scheme)) => value,
                    "jitter" | "load" => dir.join(value).to_string_lossy().into_owned(),
                    _ => value,
                };
                options.insert(field.key.to_owned(), value);
            } else if field.key == "env" {
                env.extend(field.variables()?);
            }
        }
        Ok(NodeSpec {
            name,
            cpus,
            course,
            method: method.transpose()?,
            options,
            commands: self.commands()?,
            env,
            cwd: cwd.map(|cwd| dir.join(cwd)),
            origin,
        })
    }

    /// `speed` or `profile` of one table.
    fn course(&self, dir: &Path) -> Result<Option<NodeCourse>, SpecError> {
        Ok(match (self.get("speed"), self.get("profile")) {
            (Some(speed), None) => Some(NodeCourse::Constant(speed.speeds()?)),
            (None, Some(profile)) => match profile.string()? {
                path if path.is_empty() => {
                    return Err(profile.fault("it is empty", "name a file"));
                }
                path => Some(NodeCourse::Profile(dir.join(path))),
            },
            (Some(_), Some(profile)) => {
                return Err(profile.fault(
                    "there is a speed as well",
                    "write speed for a constant one, profile for one that changes",
                ));
            }
            (None, None) => None,
        })
    }

    fn commands(&self) -> Result<Vec<Vec<String>>, SpecError> {
        match (self.get("command"), self.get("commands")) {
            (None, None) => Ok(Vec::new()),
            (Some(field), None) => Ok(vec![field.words(field.value)?]),
            (None, Some(field)) => {
                let remedy = "write commands = [\"./one\", \"./two\"], or command = \"./one\"";
                let DeValue::Array(list) = field.value.get_ref() else {
                    return Err(field.fault("expected a list of commands", remedy));
                };
                if list.is_empty() {
                    return Err(field.fault("there is none in it", "write one, or leave it out"));
                }
                list.iter().map(|command| field.words(command)).collect()
            }
            (Some(_), Some(field)) => {
                Err(field.fault("the node has a command as well", "put it into the list"))
            }
        }
    }
}

fn is_number(load: &str) -> bool {
    load.trim_end_matches(['%', ' ']).parse::<f64>().is_ok()
}
