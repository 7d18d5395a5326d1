// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether an expression keeps what its series mean.
//!
//! The result of `1 - rate(X)` keeps the label `mode` of X, so that a usage
//! would be read as idle time. Spellings of that are without number; therefore
//! an expression is followed as `scale * series + shift`, and what cannot be
//! followed is unclear.

use std::iter::Peekable;
use std::str::Chars;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// More time in a mode gives a greater value, and none gives 0.
    Kept,
    /// It is subtracted from a number.
    Reversed,
    Unclear,
}

/// The greatest shift, as a part of the scale: an offset that corrects.
const MOST_SHIFT: f64 = 0.01 + 1e-9;

/// Functions and aggregations of one series that keep its order.
const KEEPING: [&str; 27] = [
    "rate",
    "irate",
    "increase",
    "delta",
    "avg_over_time",
    "last_over_time",
    "max_over_time",
    "min_over_time",
    "sum_over_time",
    "quantile_over_time",
    "avg",
    "max",
    "min",
    "sum",
    "quantile",
    "topk",
    "bottomk",
    "clamp",
    "clamp_max",
    "clamp_min",
    "ceil",
    "floor",
    "round",
    "sort",
    "sort_desc",
    "scalar",
    "vector",
];

/// Operators from the weakest to the strongest.
const OPERATORS: [&[&str]; 6] = [
    &["or"],
    &["and", "unless"],
    &["==", "!=", ">=", "<=", ">", "<"],
    &["+", "-"],
    &["*", "/", "%", "atan2"],
    &["^"],
];
const STRONGEST: usize = OPERATORS.len() - 1;

/// Follows an expression. One that sets labels itself may give its result another mode, and what
/// is no PromQL is for the server to refuse.
pub fn direction(query: &str) -> Direction {
    if query.contains("label_replace") || query.contains("label_join") {
        return Direction::Kept;
    }
    let Some(tokens) = tokens(query) else {
        return Direction::Kept;
    };
    let count = |sign: &str| {
        let signs = tokens.iter();
        signs
            .filter(|token| **token == Token::Sign(sign.to_owned()))
            .count()
    };
    if count("(") != count(")") {
        return Direction::Kept;
    }
    let mut parser = Parser { tokens, at: 0 };
    match parser.level(0) {
        Some(all) if parser.at == parser.tokens.len() => all.direction(),
        _ => Direction::Unclear,
    }
}

/// `scale * series + shift`; a number has the scale 0.
#[derive(Debug, Clone, Copy)]
struct Linear {
    scale: f64,
    shift: f64,
}

impl Linear {
    const SERIES: Self = Self {
        scale: 1.0,
        shift: 0.0,
    };

    fn number(shift: f64) -> Self {
        Self { scale: 0.0, shift }
    }

    fn is_number(self) -> bool {
        self.scale == 0.0
    }

    fn times(self, factor: f64) -> Self {
        Self {
            scale: self.scale * factor,
            shift: self.shift * factor,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            scale: self.scale + other.scale,
            shift: self.shift + other.shift,
        }
    }

    fn direction(self) -> Direction {
        if self.scale < 0.0 {
            Direction::Reversed
        } else if self.scale > 0.0 && self.shift.abs() <= MOST_SHIFT * self.scale {
            Direction::Kept
        } else {
            Direction::Unclear
        }
    }

    /// Whether it is a factor of a series, which is never below 0.
    fn is_share(self) -> bool {
        self.scale > 0.0 && self.shift == 0.0
    }
}

/// How the series of two sides are matched.
#[derive(Default)]
struct Matching {
    is_bool: bool,
    /// The result has no label mode, which the importer refuses.
    drops_mode: bool,
    /// The labels are those of the right side.
    is_right: bool,
}

fn apply(operator: &str, left: Linear, right: Linear, matching: &Matching) -> Option<Linear> {
    let are_series = !left.is_number() && !right.is_number();
    let are_shares = left.is_share() && right.is_share();
    match operator {
        "+" if are_series && left.scale * right.scale < 0.0 => None,
        "+" => Some(left.plus(right)),
        "-" if are_series => matching.drops_mode.then_some(left),
        "-" => Some(left.plus(right.times(-1.0))),
        "*" if right.is_number() => Some(left.times(right.shift)),
        "*" if left.is_number() => Some(right.times(left.shift)),
        "*" => are_shares.then_some(Linear::SERIES),
        "/" if right.is_number() => Some(left.times(1.0 / right.shift)),
        "/" => (are_shares && !matching.is_right).then_some(Linear::SERIES),
        "^" if left.is_number() && right.is_number() => {
            Some(Linear::number(left.shift.powf(right.shift)))
        }
        "and" | "unless" => Some(left),
        "or" => {
            let are_kept = [left, right].map(Linear::direction) == [Direction::Kept; 2];
            are_kept.then_some(left)
        }
        "%" | "^" | "atan2" => None,
        // A comparison leaves values out.
        _ if matching.is_bool => None,
        _ if left.is_number() => Some(right),
        _ => Some(left),
    }
}

#[derive(Debug, PartialEq)]
enum Token {
    /// A name, a number or a length of time.
    Word(String),
    /// A text in quotes.
    Text,
    /// `{...}`
    Labels,
    /// `[...]`
    Range,
    Sign(String),
}

/// `None` where a character is none of PromQL.
fn tokens(query: &str) -> Option<Vec<Token>> {
    let mut chars = query.chars().peekable();
    let mut all = Vec::new();
    while let Some(c) = chars.next() {
        all.push(match c {
            c if c.is_whitespace() => continue,
            '"' | '\'' | '`' => {
                skip(&mut chars, c);
                Token::Text
            }
            '{' => {
                skip(&mut chars, '}');
                Token::Labels
            }
            '[' => {
                skip(&mut chars, ']');
                Token::Range
            }
            c if is_of_word(c) => Token::Word(word(c, &mut chars)),
            '=' | '!' | '<' | '>' => {
                let equal = chars.next_if_eq(&'=');
                Token::Sign([Some(c), equal].into_iter().flatten().collect())
            }
            // A comment hides what follows it.
            '#' => Token::Sign(c.to_string()),
            c if "()+-*/%^@,".contains(c) => Token::Sign(c.to_string()),
            _ => return None,
        });
    }
    Some(all)
}

fn skip(chars: &mut Peekable<Chars<'_>>, close: char) {
    let is_quote = |c| matches!(c, '"' | '\'' | '`');
    while let Some(c) = chars.next() {
        match c {
            c if c == close => return,
            '\\' if close != '`' => drop(chars.next()),
            c if is_quote(c) && !is_quote(close) => skip(chars, c),
            _ => {}
        }
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | ':' | '.')
}

fn word(first: char, chars: &mut Peekable<Chars<'_>>) -> String {
    let mut word = String::from(first);
    let is_number = !first.is_alphabetic();
    while let Some(c) = chars.next_if(|c| is_of_word(*c)) {
        word.push(c);
        if is_number && matches!(c, 'e' | 'E') {
            word.extend(chars.next_if(|c| matches!(c, '+' | '-')));
        }
    }
    word
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

/// Each gives `None` where the expression cannot be followed.
impl Parser {
    fn take(&mut self, wanted: impl FnOnce(&Token) -> bool) -> Option<&Token> {
        let token = self.tokens.get(self.at).filter(|token| wanted(token))?;
        self.at += 1;
        Some(token)
    }

    /// The one of these words and signs that stands here.
    fn take_of(&mut self, wanted: &[&'static str]) -> Option<&'static str> {
        let (Token::Word(text) | Token::Sign(text)) = self.tokens.get(self.at)? else {
            return None;
        };
        let mut wanted = wanted.iter().copied();
        let found = wanted.find(|wanted| text.eq_ignore_ascii_case(wanted))?;
        self.at += 1;
        Some(found)
    }

    fn level(&mut self, level: usize) -> Option<Linear> {
        let Some(operators) = OPERATORS.get(level) else {
            return self.signed();
        };
        let mut left = self.level(level + 1)?;
        while let Some(operator) = self.take_of(operators) {
            let matching = self.matching()?;
            let right = self.level(level + 1)?;
            left = apply(operator, left, right, &matching)?;
        }
        Some(left)
    }

    fn matching(&mut self) -> Option<Matching> {
        let mut matching = Matching::default();
        const WORDS: [&str; 5] = ["bool", "on", "ignoring", "group_left", "group_right"];
        while let Some(word) = self.take_of(&WORDS) {
            match word {
                "bool" => matching.is_bool = true,
                "on" => matching.drops_mode = !self.labels()?,
                "ignoring" => matching.drops_mode = self.labels()?,
                _ => {
                    matching.drops_mode = false;
                    matching.is_right = word == "group_right";
                    if self.tokens.get(self.at) == Some(&Token::Sign("(".to_owned())) {
                        self.labels()?;
                    }
                }
            }
        }
        Some(matching)
    }

    /// A list of labels, and whether mode is one.
    fn labels(&mut self) -> Option<bool> {
        self.take_of(&["("])?;
        let mut has_mode = false;
        while self.take_of(&[")"]).is_none() {
            let is_mode = |token: &Token| *token == Token::Word("mode".to_owned());
            has_mode |= self.take(|_| true).map(is_mode)?;
        }
        Some(has_mode)
    }

    fn signed(&mut self) -> Option<Linear> {
        match self.take_of(&["-", "+"]) {
            Some("-") => Some(self.level(STRONGEST)?.times(-1.0)),
            Some(_) => self.level(STRONGEST),
            None => {
                let value = self.value()?;
                self.modifiers()?;
                Some(value)
            }
        }
    }

    fn value(&mut self) -> Option<Linear> {
        if self.take_of(&["("]).is_some() {
            let inner = self.level(0)?;
            self.take_of(&[")"])?;
            return Some(inner);
        }
        let name = match self.take(|_| true)? {
            Token::Labels => return Some(Linear::SERIES),
            Token::Word(word) => word.to_ascii_lowercase(),
            _ => return None,
        };
        if name.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return name.parse().ok().map(Linear::number);
        }
        let is_grouped = self.group()?;
        if is_grouped || self.tokens.get(self.at) == Some(&Token::Sign("(".to_owned())) {
            return self.call(&name);
        }
        self.take(|token| *token == Token::Labels);
        Some(Linear::SERIES)
    }

    /// `by (...)` or `without (...)`, before or behind what is aggregated.
    fn group(&mut self) -> Option<bool> {
        let is_there = self.take_of(&["by", "without"]).is_some();
        if is_there {
            self.labels()?;
        }
        Some(is_there)
    }

    fn call(&mut self, name: &str) -> Option<Linear> {
        self.take_of(&["("])?;
        let mut given = Vec::new();
        while self.take_of(&[")"]).is_none() {
            given.push(self.level(0)?);
            self.take_of(&[","]);
        }
        self.group()?;
        let mut series = given.iter().filter(|value| !value.is_number());
        let found = match (series.next(), series.next()) {
            (Some(one), None) => Some(*one),
            (None, _) if matches!(name, "scalar" | "vector") => given.first().copied(),
            _ => None,
        };
        found.filter(|_| KEEPING.contains(&name))
    }

    fn modifiers(&mut self) -> Option<()> {
        loop {
            if self.take(|token| *token == Token::Range).is_some() {
            } else if self.take_of(&["offset"]).is_some() {
                self.take_of(&["-"]);
                self.take(|token| matches!(token, Token::Word(_)))?;
            } else if self.take_of(&["@"]).is_some() {
                self.take(|token| matches!(token, Token::Word(_)))?;
                if self.take_of(&["("]).is_some() {
                    self.take_of(&[")"])?;
                }
            } else {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_usage_is_found() {
        for query in [
            "(1) - rate(X[1m])",
            "1e0-rate(X[1m])",
            "scalar(vector(1)) - rate(X[1m])",
            "1 + -rate(X[1m])",
            "rate(X[1m])*-1+1",
            "-(rate(X[1m]) - 1)",
            "1 - ON (cpu, mode) rate(X{mode='idle'}[1m])",
            "100 * (1 - avg by (cpu, mode) (rate(X[1m])))",
            "rate(X[1m]) * (2 - 3) + 1",
            "(1e+0 - rate(X[1m])) / 2",
        ] {
            assert_eq!(direction(query), Direction::Reversed, "{query}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_unclear() {
        for query in [
            "abs(rate(X[1m])-1)",
            "(rate(X[1m])-1)^2",
            "rate(X[1m]) ^ 0 - rate(X[1m])",
            "(rate(X[1m]) - 1) * (rate(X[1m]) - 1)",
            "rate(X[1m]) - 1",
            "group by (cpu, mode) (X) - rate(X[1m])",
            "sum by (cpu) (rate(X[1m])) - on (cpu) group_right rate(X[1m])",
            "sum by (cpu) (rate(X[1m])) / on (cpu) group_right rate(X[1m])",
            "1 / rate(X[1m])",
            "rate(X[1m]) < bool 0.5",
            "rate(X[1m]) or 1 - rate(X[1m])",
            "rate(X[1m]) # 1",
            "rate(X[1m]) rate(X[1m])",
            "0x1 - rate(X[1m])",
        ] {
            assert_eq!(direction(query), Direction::Unclear, "{query}");
        }
    }

    #[test]
    fn what_means_the_time_in_a_mode_is_taken() {
        for query in [
            "X",
            "{__name__=~\"node_cpu.*\"} @ end() offset -1m",
            "rate(X{a=\"]}-\",b='\\'-'}[5m] @ 1609746000)",
            "sum by (cpu, mode) (rate(X[1m]))",
            "sum(rate(X[1m])) without (job) * 100",
            "1 - (1 - rate(X[1m]))",
            "rate(X[1m]) * on (instance) group_left(nodename) node_uname_info",
            "rate(X[1m]) / ignoring(mode) group_left sum without (mode) (rate(X[1m]))",
            "avg_over_time(clamp(rate(X[1m]), 0, 1)[5m:1m])",
            "rate(X[1m]) >= 0 or increase(X[1m]) / 60",
            "no & PromQL",
            "rate(X[1m]",
        ] {
            assert_eq!(direction(query), Direction::Kept, "{query}");
        }
    }
}
