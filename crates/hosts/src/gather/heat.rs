// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hosts x time as a picture: one point per host and piece of time, a bitmap with a palette
//! inside the page. A thousand hosts are 250 kB, which as drawn rectangles would be 20 MB.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::{COLUMNS, GatheredHost};

/// Entries of the palette: unknown, then loads of 0 to 100 %, then what was off.
const UNKNOWN: u8 = 0;
const ZERO: u8 = 1;
const OFF: u8 = 102;

/// Red, green, blue, of no load and of a full one; blends of them are the loads between.
const LOW: [f64; 3] = [226.0, 235.0, 243.0];
const HIGH: [f64; 3] = [11.0, 47.0, 77.0];
pub(super) const OFF_COLOUR: [u8; 3] = [230, 120, 0];
pub(super) const UNKNOWN_COLOUR: [u8; 3] = [150, 156, 162];

/// The picture as the address of an image.
pub(super) fn picture(hosts: &[GatheredHost]) -> String {
    let bitmap = bitmap(hosts);
    format!("data:image/bmp;base64,{}", BASE64_STANDARD.encode(bitmap))
}

/// `#rrggbb` of a load.
pub(super) fn colour(pct: f64) -> String {
    let [r, g, b] = of(index(pct));
    format!("#{r:02x}{g:02x}{b:02x}")
}

fn index(pct: f64) -> u8 {
    ZERO + pct.round().clamp(0.0, 100.0) as u8
}

fn of(index: u8) -> [u8; 3] {
    match index {
        UNKNOWN => UNKNOWN_COLOUR,
        OFF => OFF_COLOUR,
        load => {
            let share = f64::from(load.saturating_sub(ZERO).min(100)) / 100.0;
            [0, 1, 2].map(|part| (LOW[part] + (HIGH[part] - LOW[part]) * share).round() as u8)
        }
    }
}

/// A Windows bitmap of 8 bits per point, the first host on top.
fn bitmap(hosts: &[GatheredHost]) -> Vec<u8> {
    const HEADERS: u32 = 14 + 40;
    const PALETTE: u32 = 256 * 4;
    let (width, height) = (COLUMNS as u32, hosts.len() as u32);
    // Rows end at multiples of four bytes, as 240 does.
    let size = width * height;
    let mut out = Vec::with_capacity((HEADERS + PALETTE + size) as usize);
    let long = |out: &mut Vec<u8>, value: u32| out.extend_from_slice(&value.to_le_bytes());
    out.extend_from_slice(b"BM");
    long(&mut out, HEADERS + PALETTE + size);
    long(&mut out, 0);
    long(&mut out, HEADERS + PALETTE);
    long(&mut out, 40);
    long(&mut out, width);
    // Below zero: the first row is the top.
    out.extend_from_slice(&(-i64::from(height) as i32).to_le_bytes());
    // One plane, eight bits.
    out.extend_from_slice(&[1, 0, 8, 0]);
    for value in [0, size, 2835, 2835, 256, 0] {
        long(&mut out, value);
    }
    for entry in 0..=u8::MAX {
        let [r, g, b] = of(entry);
        out.extend_from_slice(&[b, g, r, 0]);
    }
    for host in hosts {
        let known = host.course.iter().map(|piece| match piece {
            None => UNKNOWN,
            Some(piece) if piece.is_off => OFF,
            Some(piece) => index(piece.got_pct),
        });
        out.extend(known.chain(std::iter::repeat(UNKNOWN)).take(COLUMNS));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::Piece;
    use super::*;

    #[test]
    fn a_point_for_each_host_and_piece_of_time() {
        const _: () = assert!(COLUMNS.is_multiple_of(4));
        let host = |got_pct, is_off| GatheredHost {
            course: vec![Some(Piece { got_pct, is_off }); COLUMNS],
            ..GatheredHost::default()
        };
        let hosts = [host(50.0, false), host(50.0, true), GatheredHost::default()];
        let made = bitmap(&hosts);
        assert_eq!(made.len(), 14 + 40 + 1024 + 3 * COLUMNS);
        assert_eq!(
            u32::from_le_bytes(made[2..6].try_into().unwrap()) as usize,
            made.len()
        );
        let points = &made[made.len() - 3 * COLUMNS..];
        assert!(points[..COLUMNS].iter().all(|point| *point == ZERO + 50));
        assert!(
            points[COLUMNS..2 * COLUMNS]
                .iter()
                .all(|point| *point == OFF)
        );
        assert!(points[2 * COLUMNS..].iter().all(|point| *point == UNKNOWN));
        assert_eq!(colour(0.0), "#e2ebf3");
        assert_eq!(colour(1e9), colour(100.0));
    }
}
