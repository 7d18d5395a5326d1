// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams whose steps a function makes.

use crate::{BoxSteps, Profile, ProfileHeader, Result, Step, Steps};

/// A stream of what `next` makes of the steps of `inner`. `next` counts in its
/// second argument what `warning` reports, and is not called again after its
/// end or an error.
pub(crate) fn change_steps(
    inner: BoxSteps,
    header: ProfileHeader,
    warning: impl Fn(u64) -> Option<String> + Send + 'static,
    next: impl FnMut(&mut BoxSteps, &mut u64) -> Result<Option<Step>> + Send + 'static,
) -> BoxSteps {
    Box::new(ChangedSteps {
        inner,
        header,
        warning,
        next,
        count: 0,
        done: false,
    })
}

/// A stream of what `next` makes.
pub(crate) fn make_steps(
    header: ProfileHeader,
    warnings: Vec<String>,
    mut next: impl FnMut() -> Result<Option<Step>> + Send + 'static,
) -> BoxSteps {
    let empty = Profile {
        header: header.clone(),
        steps: Vec::new(),
        warnings,
    };
    change_steps(empty.into_steps(), header, no_warning, move |_, _| next())
}

pub(crate) fn no_warning(_: u64) -> Option<String> {
    None
}

struct ChangedSteps<W, N> {
    inner: BoxSteps,
    header: ProfileHeader,
    warning: W,
    next: N,
    count: u64,
    done: bool,
}

impl<W, N> Steps for ChangedSteps<W, N>
where
    W: Fn(u64) -> Option<String> + Send,
    N: FnMut(&mut BoxSteps, &mut u64) -> Result<Option<Step>> + Send,
{
    fn header(&self) -> &ProfileHeader {
        &self.header
    }

    fn next_step(&mut self) -> Result<Option<Step>> {
        if self.done {
            return Ok(None);
        }
        let step = (self.next)(&mut self.inner, &mut self.count);
        self.done = !matches!(step, Ok(Some(_)));
        step
    }

    fn warnings(&self) -> Vec<String> {
        let mut all = self.inner.warnings();
        all.extend((self.warning)(self.count));
        all
    }
}
