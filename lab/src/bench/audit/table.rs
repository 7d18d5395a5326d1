// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The results of audits, and whether they are right. Pure.

use sandbag_audit::model::{Audit, AuditVerdict, Effect, Quantity};

use clap::ValueEnum as _;

use super::plant::Plant;
use super::simulate::upper_bound;
use crate::bench::benchmark::value_name;
use crate::row::{End, Row};
use crate::table::{Table, number, yes};

/// The row of an audit. Figures are the greatest effect on the CPU over the tests: in
/// elapsed and in CPU time, percent, and in the share of time in which runs waited,
/// points; and the effect that the best test would have detected.
pub fn row(plant: Plant, round: u32, cpu: u32, audit: &Audit) -> Row {
    let mut row = Row::new(&value_name(&plant), round);
    row.cpus = cpu.to_string();
    row.put("took_s", audit.took_ns as f64 / 1e9);
    row.say("verdict", format!("{:?}", audit.verdict).to_lowercase());
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for test in &audit.tests {
        let effects = test.effects.iter();
        let unequal = test.verdicts.iter();
        for verdict in unequal.filter(|v| v.verdict == AuditVerdict::Unequal) {
            let quantity = format!("{:?}", verdict.quantity).to_lowercase();
            if verdict.cpu == cpu {
                found.push(format!("{} {quantity}", test.name));
            } else {
                let same = |e: &&Effect| e.cpu == verdict.cpu && e.quantity == verdict.quantity;
                let pct = effects.clone().find(same).map_or(0.0, |e| e.pct);
                let name = &test.name;
                others.push(format!("{}: {name} {quantity} {pct:+.2}", verdict.cpu));
            }
        }
        for (name, quantity) in [
            ("elapsed_pct", Quantity::Elapsed),
            ("waiting_pct", Quantity::Waiting),
            ("cpu_pct", Quantity::Cpu),
        ] {
            let own = effects.clone();
            let own = own.filter(|e| e.cpu == cpu && e.quantity == quantity);
            let all = own.map(|effect| effect.pct).chain(row.get(name));
            row.put(name, all.reduce(f64::max));
        }
        let seen = effects.filter(|e| e.quantity == Quantity::Elapsed);
        let seen: Option<Vec<f64>> = seen.map(|effect| effect.detectable_pct).collect();
        let worst = seen.and_then(|all| all.into_iter().reduce(f64::max));
        let all = worst.into_iter().chain(row.get(DETECTABLE));
        row.put(DETECTABLE, all.reduce(f64::min));
    }
    row.say("in", found.join(", "));
    row.say("others", others.join(", "));
    let first = audit.suspects.iter().find(|suspect| suspect.cpu == cpu);
    row.say("first", first.map_or("", |suspect| &suspect.kind));
    row
}

const DETECTABLE: &str = "detectable_pct";

fn is_right(plant: Plant, row: &Row) -> bool {
    plant.cause() == Some(row.text("first"))
}

pub fn line(plant: Plant, row: &Row) -> Vec<String> {
    if let Some(why) = row.why_failed() {
        return vec![plant.about().to_owned(), format!("failed: {why}")];
    }
    let or = |name: &str, none: &str| match row.text(name) {
        "" => none.to_owned(),
        text => text.to_owned(),
    };
    let first = or("first", "-");
    let wrong = plant.cause().is_some() && first != "-" && !is_right(plant, row);
    vec![
        plant.about().to_owned(),
        yes(!row.text("in").is_empty()),
        format!("{first}{}", if wrong { " (wrong)" } else { "" }),
        number(row.get("elapsed_pct"), 2),
        number(row.get("cpu_pct"), 2),
        number(row.get("waiting_pct"), 2),
        number(row.get(DETECTABLE), 2),
        or("others", "none"),
        number(row.get("took_s"), 0),
        or("in", "-"),
    ]
}

const HEADS: &str = "planted | found | first suspect | elapsed % | CPU % | waiting, points | \
                     seen from % | other CPUs | took s | in";

pub fn report(rows: &[Row], cpu: u32) -> String {
    let mut table = Table::of(HEADS);
    let of = |plant: Plant| {
        rows.iter()
            .filter(move |row| row.cell == value_name(&plant))
    };
    for plant in Plant::value_variants() {
        of(*plant).for_each(|row| table.push(line(*plant, row)));
    }
    let planted = || {
        let plants = Plant::value_variants()
            .iter()
            .copied()
            .filter(|plant| plant.cause().is_some());
        plants.flat_map(|plant| of(plant).map(move |row| (plant, row)))
    };
    let found = planted().filter(|(_, row)| !row.text("in").is_empty());
    let right = planted().filter(|(plant, row)| is_right(*plant, row));
    let equal = || of(Plant::None).filter(|row| row.end == End::Done);
    let alarms = equal().filter(|row| !row.text("in").is_empty() || !row.text("others").is_empty());
    let mut text = format!(
        "All on CPU {cpu}. The greatest effect over the tests in elapsed time, in CPU time, and in the share of \
         time in which runs waited; \
         differences of elapsed time from the next column on would have been seen in the best \
         test.\n\n{}\n\
         Planted: {}; found on the right CPU: {}; right cause named first: {}.\n\
         Audits of CPUs to which nothing was done: {}; alarms: {}.\n",
        table.markdown(),
        planted().count(),
        found.count(),
        right.count(),
        equal().count(),
        alarms.count()
    );
    for row in rows {
        if let (Some(all), Some(found)) = (row.get("audits"), row.get("alarms")) {
            text += &format!(
                "Simulated audits of equal CPUs: {all}; alarms: {found}; upper 95 % bound of their \
                 share: {:.2} %.\n",
                upper_bound(found as u64, all as u64, 0.95) * 100.0
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_by_what_was_planted() {
        let row = |cell: &str, texts: &[(&str, &str)]| {
            let mut row = Row::new(cell, 0);
            texts.iter().for_each(|(name, text)| row.say(name, *text));
            row
        };
        let mut simulated = Row::new("simulated", 0);
        simulated.put("audits", 2000.0);
        simulated.put("alarms", 0.0);
        let rows = [
            row("load", &[("in", "compute elapsed"), ("first", "load")]),
            row("load", &[("in", "compute elapsed"), ("first", "task")]),
            row("none", &[]),
            Row::failed("slow", 0, &anyhow::anyhow!("no")),
            simulated,
        ];
        let text = report(&rows, 1);
        for expected in [
            "Planted: 3; found on the right CPU: 2; right cause named first: 1",
            "nothing was done: 1; alarms: 0",
            "bound of their share: 0.15 %",
            "task (wrong)",
            "failed: no",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}
