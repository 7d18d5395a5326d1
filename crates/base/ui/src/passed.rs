// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options that are handed to another command of ours: read and checked here, and kept as
//! the words to say them with.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};

/// Options of type `T`, and those of them that were given, as words.
#[derive(Debug, Clone)]
pub struct Passed<T> {
    pub options: T,
    /// `--name=value`, or `--name` of an option without a value. Arguments without a name
    /// are not among them.
    pub words: Vec<String>,
}

impl<T: Args> Passed<T> {
    /// The words of all options but these.
    pub fn without(&self, names: &[&str]) -> Vec<String> {
        let name = |word: &str| word[2..].split('=').next().unwrap_or_default().to_owned();
        let words = self.words.iter();
        words
            .filter(|word| !names.contains(&name(word).as_str()))
            .cloned()
            .collect()
    }
}

impl<T: Args> Args for Passed<T> {
    fn augment_args(command: Command) -> Command {
        T::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

impl<T: Args> FromArgMatches for Passed<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self {
            words: words::<T>(matches),
            options: T::from_arg_matches(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn words<T: Args>(matches: &ArgMatches) -> Vec<String> {
    let known = T::augment_args(Command::new("known"));
    known
        .get_arguments()
        .flat_map(|arg| words_of(arg, matches))
        .collect()
}

fn words_of(arg: &Arg, matches: &ArgMatches) -> Vec<String> {
    let id = arg.get_id().as_str();
    let Some(name) = arg.get_long() else {
        return Vec::new();
    };
    if matches.value_source(id) != Some(ValueSource::CommandLine) {
        return Vec::new();
    }
    if !arg.get_action().takes_values() {
        return vec![format!("--{name}")];
    }
    let values = matches.get_raw(id).into_iter().flatten();
    values
        .map(|value| format!("--{name}={}", value.to_string_lossy()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Args)]
    struct Some {
        #[arg(short, long, default_value = "1")]
        number: u32,
        #[arg(long)]
        flag: bool,
        #[arg(long, value_delimiter = ',')]
        list: Vec<String>,
        #[arg(long)]
        out: Option<String>,
        #[arg(last = true)]
        command: Vec<String>,
    }

    fn passed(text: &str) -> Passed<Some> {
        let command = Passed::<Some>::augment_args(Command::new("x").no_binary_name(true));
        let matches = command.try_get_matches_from(text.split_whitespace());
        Passed::from_arg_matches(&matches.unwrap()).unwrap()
    }

    #[test]
    fn what_was_given_is_said_again() {
        assert_eq!(passed("-- a --flag").words, [""; 0]);
        let given = passed("--list a,b -n 7 --flag --out x=y -- a --number 3");
        assert_eq!(given.options.number, 7);
        let all = ["--number=7", "--flag", "--list=a", "--list=b", "--out=x=y"];
        assert_eq!(given.words, all);
        assert_eq!(given.without(&["out", "list"]), all[..2]);
    }
}
