// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Joining equal neighbours.

use crate::stream::{change_steps, no_warning};
use crate::{BoxSteps, Step};

/// Joins neighbouring steps whose cells are all equal: the same profile with
/// fewer changes.
pub fn coalesce(steps: BoxSteps) -> BoxSteps {
    let header = steps.header().clone();
    let mut open: Option<Step> = None;
    change_steps(steps, header, no_warning, move |inner, _| {
        loop {
            match (inner.next_step()?, open.as_mut()) {
                (Some(next), Some(open)) if next.cells == open.cells => open.end_ns = next.end_ns,
                (Some(next), Some(_)) => return Ok(open.replace(next)),
                (Some(next), None) => open = Some(next),
                (None, _) => return Ok(open.take()),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use crate::algebra::cut;
    use crate::testing::{any_profile, assert_sound, at};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_changes_and_no_equal_neighbours_are_left(p in any_profile(), at_ns in 1u64..600) {
            // Two halves of a step are equal neighbours; make some.
            let mut split = p.clone();
            if let Some(i) = split.steps.iter().position(|s| s.start_ns < at_ns && at_ns < s.end_ns) {
                let mut right = split.steps[i].clone();
                split.steps[i].end_ns = at_ns;
                right.start_ns = at_ns;
                split.steps.insert(i + 1, right);
            }
            let joined = Profile::collect(coalesce(split.into_steps())).unwrap();
            assert_sound(&joined);
            for t in 0..=p.end_ns() {
                prop_assert_eq!(at(&joined, t), at(&p, t));
            }
            prop_assert!(joined.steps.windows(2).all(|w| w[0].cells != w[1].cells));
            let again = Profile::collect(coalesce(joined.clone().into_steps())).unwrap();
            prop_assert_eq!(again, joined);
        }
    }

    #[test]
    fn an_error_below_is_passed_on() {
        let p = crate::testing::profile(&[0], &[(10, &[Some(1.0)])]);
        let cut = cut(p.into_steps(), 20, 30).unwrap();
        assert!(Profile::collect(coalesce(cut)).is_err());
    }
}
