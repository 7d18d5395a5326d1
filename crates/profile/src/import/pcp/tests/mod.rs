// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PCP's exports: what is read, what is decided, what is refused. Rows and
//! records are as PCP 6 wrote them for archives made for the purpose.

mod pcp2json;
mod pmdumplog;
mod pmrep;

use proptest::prelude::*;

use crate::testing::read_as;
use crate::{Format, Profile};

use pcp2json::two_elements;
use pmdumplog::dump;
use pmrep::{COUNTERS, csv};

/// What is exported in these tests, unless it is the point.
const USER_SYS_IDLE: [&str; 3] = ["user", "sys", "idle"];

fn begins(p: &Profile) -> String {
    p.header.begins_at.unwrap().to_string()
}

const FORMATS: [Format; 3] = [Format::PmrepCsv, Format::Pcp2Json, Format::Pmdumplog];

proptest! {
    #[test]
    fn any_bytes_are_answered(
        bytes: Vec<u8>,
        text in "(Time|Host|cpu0|inst \\[|value|kernel.percpu.cpu.|user|idle|17:58:53.5|[{}\"\\[\\]:;,#() \n0-9.%a-z-])*",
    ) {
        for bytes in [&bytes[..], text.as_bytes()] {
            for format in FORMATS {
                read_as(bytes, Some(format)).ok();
            }
        }
    }

    #[test]
    fn damaged_files_are_answered(
        which in 0usize..5,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut: prop::sample::Index,
    ) {
        let (text, format) = match which {
            0 => (csv(COUNTERS), Format::PmrepCsv),
            1 => (format!("Host,Interval,{}vm,0,2016-11-20 00:00:00 UTC+1,,,,,,\nvm,1,2016-11-20 00:00:01 UTC+1,1.5,2.5,0.0,0.0,2.5,1.5\n", csv("")), Format::PmrepCsv),
            2 => (two_elements(), Format::Pcp2Json),
            3 => (dump(), Format::Pmdumplog),
            _ => (dump().replace("Sat Nov 21 ", "").replace(" 2026", " (0.5)"), Format::Pmdumplog),
        };
        let mut text = text.into_bytes();
        for (at, byte) in edits {
            *at.get_mut(&mut text) = byte;
        }
        read_as(&text, Some(format)).ok();
        text.truncate(cut.index(text.len()));
        read_as(&text, Some(format)).ok();
    }
}
