// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One `[[node]]` table.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ::toml::de::DeValue;
use sandbag_linux::CpuList;

use super::Vocabulary;
use super::fields::{Field, Fields, integer, nearest, scalar};
use crate::node::environment;
use crate::node::spec::{Cpus, NodeCourse, NodeName, NodeSpec, Origin, SpecError};
use crate::node::speed::{BadSpeed, Speed, Speeds};

const OWN: [&str; 5] = ["name", "cpus", "cores", "command", "commands"];
const SHARED: [&str; 5] = ["speed", "profile", "method", "env", "cwd"];

pub(super) fn knows(key: &str, vocabulary: &Vocabulary<'_>) -> bool {
    OWN.contains(&key) || SHARED.contains(&key) || vocabulary.options.contains(&key)
}

pub(super) fn check_keys(
    fields: &Fields<'_>,
    vocabulary: &Vocabulary<'_>,
    defaults: bool,
) -> Result<(), SpecError> {
    for field in fields.iter() {
        let key = field.key;
        if defaults && OWN.contains(&key) {
            return Err(field.fault(
                "it cannot be the same for all nodes",
                "write it below each [[node]]",
            ));
        }
        if !knows(key, vocabulary) {
            let own = OWN.iter().filter(|_| !defaults);
            let known: Vec<&str> = own
                .chain(&SHARED)
                .chain(vocabulary.options)
                .copied()
                .collect();
            return Err(fields.text.unknown(field.at, key, &known));
        }
    }
    Ok(())
}

pub(super) fn read(
    fields: &Fields<'_>,
    defaults: Option<&Fields<'_>>,
    at: usize,
    dir: &Path,
    vocabulary: &Vocabulary<'_>,
) -> Result<NodeSpec, SpecError> {
    check_keys(fields, vocabulary, false)?;
    let text = fields.text;
    let both = || {
        defaults
            .into_iter()
            .flat_map(Fields::iter)
            .chain(fields.iter())
    };
    let own_or_default = |key: &str| fields.get(key).or_else(|| defaults?.get(key));
    let missing =
        |key: &str, remedy: &str| text.fault(at, key, "the node has none", remedy.to_owned());
    let origin = Origin {
        file: Some(Arc::clone(text.name())),
        line: text.line(at),
        keys: both()
            .map(|f| (f.key.to_owned(), text.line(f.at)))
            .collect(),
    };

    let name = fields
        .get("name")
        .ok_or_else(|| missing("name", "write name = \"small\""))?;
    let name: NodeName = name.string()?.parse().map_err(|_| {
        let shown: String = name
            .string()
            .unwrap_or_default()
            .escape_debug()
            .take(60)
            .collect();
        name.fault(
            format!("`{shown}` cannot be the name of a file"),
            "write letters, digits, - _ and . (at most 40), beginning with a letter or digit",
        )
    })?;
    let cpus = match (fields.get("cpus"), fields.get("cores")) {
        (Some(cpus), None) => Cpus::List(cpu_list(&cpus)?),
        (None, Some(cores)) => Cpus::Cores(core_count(&cores)?),
        (Some(_), Some(cores)) => {
            return Err(cores.fault("the node has cpus as well", "write one of the two"));
        }
        (None, None) => {
            return Err(missing(
                "cpus",
                "write cpus = \"0-1\", or cores = 2 to have them chosen",
            ));
        }
    };
    let course = course(fields)?
        .or(defaults.map(course).transpose()?.flatten())
        .ok_or_else(|| {
            missing(
                "speed",
                "write speed = 0.5, or profile = \"speeds.csv\" for one that changes",
            )
        })?;
    let course = match course {
        NodeCourse::Profile(path) => NodeCourse::Profile(dir.join(path)),
        constant => constant,
    };
    let method = own_or_default("method")
        .map(|f| method(&f, vocabulary))
        .transpose()?;
    let mut options = BTreeMap::new();
    let mut env = BTreeMap::new();
    for field in both() {
        if vocabulary.options.contains(&field.key) {
            options.insert(field.key.to_owned(), field.word()?);
        } else if field.key == "env" {
            env.extend(variables(&field)?);
        }
    }
    Ok(NodeSpec {
        name,
        cpus,
        course,
        method,
        options,
        commands: commands(fields)?,
        env,
        cwd: match own_or_default("cwd") {
            Some(field) => Some(dir.join(field.string()?)),
            None => None,
        },
        origin,
    })
}

fn cpu_list(field: &Field<'_>) -> Result<CpuList, SpecError> {
    let remedy = "write CPUs such as \"0,2-3\", or [0, 2, 3]";
    let number = |value: &DeValue<'_>| {
        let number = integer(value).and_then(|n| u32::try_from(n).ok());
        number.filter(|n| *n <= sandbag_linux::cpulist::MAX_CPU)
    };
    let bad = |shown: String| {
        let shown: String = shown.escape_debug().take(60).collect();
        field.fault(format!("`{shown}` is not a list of CPUs"), remedy)
    };
    let list: CpuList = match field.value.get_ref() {
        DeValue::String(text) => text.parse().map_err(|_| bad(text.to_string()))?,
        value @ DeValue::Integer(digits) => {
            CpuList::from_iter([number(value).ok_or_else(|| bad(digits.to_string()))?])
        }
        DeValue::Array(values) => {
            let mut cpus = Vec::new();
            for value in values.iter() {
                let value = value.get_ref();
                let shown = || scalar(value).unwrap_or_else(|| value.type_str().to_owned());
                let cpu = number(value).ok_or_else(|| bad(shown()))?;
                if cpus.contains(&cpu) {
                    return Err(field.fault(format!("CPU {cpu} is named twice"), remedy));
                }
                cpus.push(cpu);
            }
            cpus.into_iter().collect()
        }
        _ => return Err(field.wrong("CPUs", remedy)),
    };
    if list.is_empty() {
        Err(field.fault("it names no CPU", remedy))
    } else {
        Ok(list)
    }
}

fn core_count(field: &Field<'_>) -> Result<usize, SpecError> {
    let remedy = "write how many, such as cores = 2";
    if !field.value.get_ref().is_integer() {
        return Err(field.wrong("a whole number", remedy));
    }
    let most = i64::from(sandbag_linux::cpulist::MAX_CPU);
    match integer(field.value.get_ref()) {
        Some(n) if (1..=most).contains(&n) => Ok(usize::try_from(n).unwrap_or(1)),
        _ => Err(field.fault("that is no number of cores", remedy)),
    }
}

fn course(fields: &Fields<'_>) -> Result<Option<NodeCourse>, SpecError> {
    Ok(match (fields.get("speed"), fields.get("profile")) {
        (Some(speed), None) => Some(NodeCourse::Constant(speeds(&speed)?)),
        (None, Some(profile)) => match profile.string()? {
            "" => return Err(profile.fault("it is empty", "name a file")),
            path => Some(NodeCourse::Profile(path.into())),
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

fn speeds(field: &Field<'_>) -> Result<Speeds, SpecError> {
    let bad = |bad: BadSpeed| field.fault(format!("`{}`: {}", bad.value, bad.reason), bad.remedy);
    let remedy = "write 0.5, \"50%\", \"1200MHz\", or { \"0\" = 1, \"1-2\" = 0.8 }";
    let one = |value: &DeValue<'_>| match value {
        DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) => {
            let text = scalar(value).unwrap_or_default();
            text.parse::<Speed>().map_err(bad)
        }
        _ => Err(field.wrong("a speed", remedy)),
    };
    match field.value.get_ref() {
        DeValue::String(text) => text.parse().map_err(bad),
        DeValue::Table(table) => {
            let parts = Fields::of(field.text, table);
            let mut speeds = Vec::new();
            for part in parts.iter() {
                let cpus: CpuList = part
                    .key
                    .parse()
                    .map_err(|_| part.fault("it is not a list of CPUs", "write \"2-3\" = 0.4"))?;
                speeds.push((cpus, one(part.value.get_ref())?));
            }
            Speeds::per_cpu(speeds).map_err(bad)
        }
        value => one(value).map(Speeds::All),
    }
}

fn method(field: &Field<'_>, vocabulary: &Vocabulary<'_>) -> Result<String, SpecError> {
    let name = field.string()?;
    if vocabulary.methods.contains(&name) {
        Ok(name.to_owned())
    } else {
        let shown: String = name.escape_debug().take(60).collect();
        Err(field.fault(
            format!("`{shown}` is not a method"),
            nearest(name, vocabulary.methods),
        ))
    }
}

fn variables(field: &Field<'_>) -> Result<BTreeMap<String, String>, SpecError> {
    let DeValue::Table(table) = field.value.get_ref() else {
        return Err(field.wrong("a table", "write env = { NAME = \"value\" }"));
    };
    let mut variables = BTreeMap::new();
    for variable in Fields::of(field.text, table).iter() {
        let name = variable.key;
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(variable.fault("no variable can have this name", "write another"));
        }
        if environment::ALL.contains(&name) {
            return Err(variable.fault("sandbag sets this one itself", "leave it out"));
        }
        variables.insert(name.to_owned(), variable.word()?);
    }
    Ok(variables)
}

fn commands(fields: &Fields<'_>) -> Result<Vec<Vec<String>>, SpecError> {
    match (fields.get("command"), fields.get("commands")) {
        (None, None) => Ok(Vec::new()),
        (Some(command), None) => Ok(vec![command_of(&command, command.value.get_ref())?]),
        (None, Some(commands)) => {
            let DeValue::Array(list) = commands.value.get_ref() else {
                let remedy = "write commands = [\"./one\", \"./two\"], or command = \"./one\"";
                return Err(commands.wrong("a list of commands", remedy));
            };
            if list.is_empty() {
                return Err(commands.fault("there is none in it", "write one, or leave it out"));
            }
            list.iter()
                .map(|value| command_of(&commands, value.get_ref()))
                .collect()
        }
        (Some(_), Some(commands)) => {
            Err(commands.fault("the node has a command as well", "put it into the list"))
        }
    }
}

/// A text that is split into words, or the words.
fn command_of(field: &Field<'_>, value: &DeValue<'_>) -> Result<Vec<String>, SpecError> {
    let remedy = "write \"./app argument\", or [\"./app\", \"argument\"]";
    let words = match value {
        DeValue::String(text) => shlex::split(text)
            .ok_or_else(|| field.fault("a quote is not closed", "close it, or write a list"))?,
        DeValue::Array(values) => values
            .iter()
            .map(|word| scalar(word.get_ref()))
            .collect::<Option<Vec<String>>>()
            .ok_or_else(|| field.fault("a command is a list of words", remedy))?,
        _ => return Err(field.wrong("a command", remedy)),
    };
    if words.first().is_none_or(String::is_empty) {
        return Err(field.fault("the program is missing", remedy));
    }
    for word in &words {
        field.printable(word)?;
    }
    Ok(words)
}
