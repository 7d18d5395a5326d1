// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Small profiles for tests.

use std::sync::Arc;

use proptest::prelude::*;

use crate::{Format, InputSource, Profile, ProfileCell, ProfileHeader, ReadOptions, Result, Step};

/// Steps by their ends and loads.
pub(crate) fn profile(cpus: &[u32], steps: &[(u64, &[Option<f64>])]) -> Profile {
    let mut start_ns = 0;
    Profile {
        header: ProfileHeader::new(cpus.to_vec(), Format::Synthetic),
        steps: steps
            .iter()
            .map(|(end_ns, loads)| {
                let step = Step {
                    start_ns,
                    end_ns: *end_ns,
                    cells: loads.iter().map(|l| l.map(ProfileCell::load)).collect(),
                };
                start_ns = *end_ns;
                step
            })
            .collect(),
        warnings: Vec::new(),
    }
}

/// Profiles of 1 to 5 CPUs and 1 to 11 steps of at most 100 ns, with holes
/// and steal; loads and steal have at most two decimals.
pub(crate) fn any_profile() -> impl Strategy<Value = Profile> {
    let cell = prop::option::weighted(
        0.9,
        (0u32..=10_000, prop_oneof![Just(0u32), 0u32..=10_000]).prop_map(|(load, steal)| {
            ProfileCell {
                load_pct: f64::from(load) / 100.0,
                steal_pct: f64::from(steal) / 100.0,
            }
        }),
    );
    (1usize..=5)
        .prop_flat_map(move |cpus| {
            let step = (1u64..100, prop::collection::vec(cell.clone(), cpus));
            (Just(cpus), prop::collection::vec(step, 1..12))
        })
        .prop_map(|(cpus, raw)| {
            let mut end_ns = 0;
            let steps = raw
                .into_iter()
                .map(|(length, cells)| {
                    let start_ns = end_ns;
                    end_ns += length;
                    Step {
                        start_ns,
                        end_ns,
                        cells,
                    }
                })
                .collect();
            Profile {
                header: ProfileHeader::new(
                    (0..cpus as u32).map(|c| c * 2).collect(),
                    Format::Native,
                ),
                steps,
                warnings: Vec::new(),
            }
        })
}

/// The cells at a time.
pub(crate) fn at(profile: &Profile, ns: u64) -> Option<&[Option<ProfileCell>]> {
    let next = profile.steps.partition_point(|s| s.end_ns <= ns);
    profile.steps.get(next).map(|s| &s.cells[..])
}

/// Fails unless the steps are contiguous from 0, none is empty, and all
/// values are in range.
pub(crate) fn assert_sound(profile: &Profile) {
    let mut last = 0;
    for step in &profile.steps {
        assert_eq!(step.start_ns, last);
        assert!(step.end_ns > step.start_ns);
        assert_eq!(step.cells.len(), profile.header.cpus.len());
        for cell in step.cells.iter().flatten() {
            assert!((0.0..=100.0).contains(&cell.load_pct), "{cell:?}");
            assert!((0.0..=100.0).contains(&cell.steal_pct), "{cell:?}");
        }
        last = step.end_ns;
    }
}

/// Reads a text as this format, or as what it looks like.
pub(crate) fn read_as(text: &[u8], format: Option<Format>) -> Result<Profile> {
    let source = InputSource::spool(&mut &*text, Arc::from("in"))?;
    let p = Profile::collect(source.open(format, &ReadOptions::default())?)?;
    assert_sound(&p);
    Ok(p)
}

/// Reads a text as what it looks like.
pub(crate) fn read(text: &str) -> Profile {
    read_as(text.as_bytes(), None).unwrap()
}

pub(crate) fn message(text: &str, format: Format) -> String {
    read_as(text.as_bytes(), Some(format))
        .unwrap_err()
        .to_string()
}

/// A format's reader answers whatever is made of a good file, and bytes that are none; what it
/// reads is sound.
pub(crate) fn assert_damage_is_answered(good: impl AsRef<[u8]>, format: Format) {
    let good = good.as_ref();
    let index = any::<prop::sample::Index>;
    let edits = prop::collection::vec((index(), any::<u8>()), 1..4);
    let pieces = prop::collection::vec((index(), 0usize..60), 0..12);
    proptest!(|(bytes: Vec<u8>, edits in edits, cut in index(), pieces in pieces)| {
        let mut damaged = good.to_vec();
        for (at, byte) in edits {
            *at.get_mut(&mut damaged) = byte;
        }
        let short = &damaged[..cut.index(damaged.len())];
        let pieces: Vec<u8> = pieces
            .iter()
            .flat_map(|(at, length)| good[at.index(good.len())..].iter().take(*length))
            .copied()
            .collect();
        for text in [&bytes[..], &damaged, short, &pieces] {
            read_as(text, Some(format)).ok();
            read_as(text, None).ok();
        }
    });
}
