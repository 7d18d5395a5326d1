// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PCP's exports: what is read, what is decided, what is refused. Rows and
//! records are as PCP 6 wrote them for archives made for the purpose.

mod pcp2json;
mod pmdumplog;
mod pmrep;

use crate::testing::assert_damage_is_answered;
use crate::{Format, Profile};

use pcp2json::two_elements;
use pmdumplog::dump;
use pmrep::{COUNTERS, csv};

/// What is exported in these tests, unless it is the point.
const USER_SYS_IDLE: [&str; 3] = ["user", "sys", "idle"];

fn begins(p: &Profile) -> String {
    p.header.begins_at.unwrap().to_string()
}

#[test]
fn damage_is_answered() {
    let with_host = "Host,Interval,".to_owned()
        + &csv("")
        + "vm,0,2016-11-20 00:00:00 UTC+1,,,,,,\nvm,1,2016-11-20 00:00:01 UTC+1,1.5,2.5,0.0,0.0,2.5,1.5\n";
    let short = dump().replace("Sat Nov 21 ", "").replace(" 2026", " (0.5)");
    for (good, format) in [
        (csv(COUNTERS), Format::PmrepCsv),
        (with_host, Format::PmrepCsv),
        (two_elements(), Format::Pcp2Json),
        (dump(), Format::Pmdumplog),
        (short, Format::Pmdumplog),
    ] {
        assert_damage_is_answered(good, format);
    }
}
