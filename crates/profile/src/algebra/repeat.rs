// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A profile again and again.

use crate::stream::{change_steps, no_warning};
use crate::{BoxSteps, Fault, ProfileHeader, Result, Step, Steps};
use sandbag_ui::quantity::Seconds;

/// The profile `times` times in a row, or for ever (`None`; such a stream
/// must not be summarised or exported). `reopen` opens the source anew for
/// each pass, so that nothing is held in memory.
///
/// # Errors
/// `times` is 0, or the source cannot be opened. In the stream: a later pass
/// has other CPUs than the first.
pub fn repeat(
    times: Option<u64>,
    mut reopen: impl FnMut() -> Result<BoxSteps> + Send + 'static,
) -> Result<BoxSteps> {
    if times == Some(0) {
        return Err(Fault::argument("number of repetitions", "0", "1 or more").into());
    }
    let first = reopen()?;
    let header = first.header().clone();
    // Passes after this one.
    let mut left = times.map(|n| n - 1);
    let (mut offset_ns, mut last_ns) = (0u64, 0);
    Ok(change_steps(first, header, no_warning, move |inner, _| {
        loop {
            if let Some(step) = inner.next_step()? {
                // A profile that would last longer than 584 years ends there.
                let Some(end_ns) = step.end_ns.checked_add(offset_ns) else {
                    return Ok(None);
                };
                last_ns = end_ns;
                return Ok(Some(Step {
                    start_ns: step.start_ns + offset_ns,
                    end_ns,
                    cells: step.cells,
                }));
            }
            if last_ns == offset_ns {
                return Err(Fault::NothingLeft { end: Seconds(0) }.into());
            }
            if left == Some(0) {
                return Ok(None);
            }
            let next = reopen()?;
            if next.header().cpus != inner.header().cpus {
                let text = "the source changed while it was repeated";
                return Err(Fault::Io(std::io::Error::other(text)).into());
            }
            let told = if offset_ns == 0 {
                let all = inner.warnings().into_iter();
                all.map(|text| each_pass(times, &text)).collect()
            } else {
                inner.warnings()
            };
            *inner = Box::new(LaterPass { inner: next, told });
            left = left.map(|n| n - 1);
            offset_ns = last_ns;
        }
    }))
}

fn each_pass(times: Option<u64>, text: &str) -> String {
    match times {
        Some(times) => format!("in each of {times} passes: {text}"),
        None => format!("in each pass: {text}"),
    }
}

/// A pass after the first, whose warnings are those of each.
struct LaterPass {
    inner: BoxSteps,
    told: Vec<String>,
}

impl Steps for LaterPass {
    fn header(&self) -> &ProfileHeader {
        self.inner.header()
    }

    fn next_step(&mut self) -> Result<Option<Step>> {
        self.inner.next_step()
    }

    fn warnings(&self) -> Vec<String> {
        self.told.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use crate::testing::{any_profile, assert_sound, at, profile};
    use proptest::prelude::*;

    #[test]
    fn never_and_nothing() {
        let p = profile(&[0], &[(10, &[Some(1.0)])]);
        let empty = profile(&[0], &[]);
        assert!(repeat(Some(0), move || Ok(p.clone().into_steps())).is_err());
        let mut forever = repeat(None, move || Ok(empty.clone().into_steps())).unwrap();
        assert!(forever.next_step().is_err());
        assert!(forever.next_step().unwrap().is_none());
    }

    #[test]
    fn figures_of_warnings_are_of_each_pass() {
        let source = || {
            let clipped = crate::algebra::scale_load(
                profile(&[0], &[(10, &[Some(60.0)])]).into_steps(),
                2.0,
            )?;
            Ok(clipped)
        };
        let told = |times| {
            let mut steps = repeat(times, source).unwrap();
            for _ in 0..3 {
                steps.next_step().unwrap();
            }
            steps.warnings()
        };
        let one = told(Some(1));
        assert_eq!(one.len(), 1);
        assert_eq!(told(Some(3)), [format!("in each of 3 passes: {}", one[0])]);
        assert_eq!(told(None), [format!("in each pass: {}", one[0])]);
    }

    #[test]
    fn for_ever_goes_on() {
        let p = profile(&[0], &[(10, &[Some(1.0)])]);
        let mut forever = repeat(None, move || Ok(p.clone().into_steps())).unwrap();
        for i in 0..1000 {
            assert_eq!(forever.next_step().unwrap().unwrap().start_ns, i * 10);
        }
    }

    #[test]
    fn a_source_that_changes() {
        let mut cpus = 0;
        let mut twice = repeat(Some(2), move || {
            cpus += 1;
            let loads = vec![Some(1.0); cpus];
            Ok(profile(&(0..cpus as u32).collect::<Vec<_>>(), &[(10, &loads)]).into_steps())
        })
        .unwrap();
        assert!(twice.next_step().is_ok());
        assert!(twice.next_step().is_err());
    }

    proptest! {
        #[test]
        fn each_pass_is_the_profile(p in any_profile(), times in 1u64..4) {
            let source = p.clone();
            let r = Profile::collect(repeat(Some(times), move || Ok(source.clone().into_steps())).unwrap()).unwrap();
            assert_sound(&r);
            prop_assert_eq!(r.end_ns(), p.end_ns() * times);
            for t in 0..r.end_ns() {
                prop_assert_eq!(at(&r, t), at(&p, t % p.end_ns()));
            }
        }
    }
}
