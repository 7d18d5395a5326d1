// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process that works: it reads orders and answers.

use std::io::{self, BufRead as _, Write as _};

use super::timed::{self, Fault};
use super::{Answer, Order, WORK_VERB, Work, prepare};

/// The hidden verb. Returns when whoever gives the orders has gone.
///
/// # Errors
/// It was not started by an audit.
pub fn work(arguments: &[String]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err(format!("{WORK_VERB} is for sandbag's own use"));
    }
    let mut current: Option<Box<dyn Work>> = None;
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|cause| cause.to_string())?;
        let Ok(order) = serde_json::from_str::<Order>(&line) else {
            return Err(format!("{WORK_VERB} is for sandbag's own use"));
        };
        let answer = answer(&mut current, order);
        let text = serde_json::to_string(&answer).map_err(|cause| cause.to_string())?;
        let mut out = io::stdout().lock();
        if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
            break;
        }
    }
    Ok(())
}

fn answer(current: &mut Option<Box<dyn Work>>, order: Order) -> Answer {
    match act(current, order) {
        Ok(answer) => answer,
        Err(Fault::Displaced(why)) => Answer::Failed {
            why,
            displaced: true,
        },
        Err(Fault::Work(why)) => Answer::Failed {
            why,
            displaced: false,
        },
    }
}

fn act(current: &mut Option<Box<dyn Work>>, order: Order) -> Result<Answer, Fault> {
    match order {
        Order::Prepare(spec) => {
            // The memory of the last one first.
            *current = None;
            let work = prepare(&spec).map_err(Fault::Work)?;
            let about = work.about();
            *current = Some(work);
            Ok(Answer::Ready { about })
        }
        Order::Leave => {
            *current = None;
            Ok(Answer::Ready {
                about: String::new(),
            })
        }
        Order::Run { cpu, units, warm } => {
            let work = current.as_deref_mut();
            let work = work.ok_or_else(|| Fault::Work("nothing was prepared".to_owned()))?;
            timed::warm(work, cpu, warm)?;
            timed::run(work, cpu, units).map(Answer::Done)
        }
        Order::Accounting { cpu } => {
            let (runs, zeros) = timed::accounting(cpu)?;
            Ok(Answer::Accounting { runs, zeros })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::Spec;

    #[test]
    fn orders_are_obeyed_in_order() {
        let cpu = sandbag_kernel::sched::affinity(0).unwrap();
        let cpu = cpu.iter().next().unwrap();
        let mut current = None;
        let run = Order::Run {
            cpu,
            units: 100,
            warm: 1,
        };
        assert!(matches!(
            answer(&mut current, run.clone()),
            Answer::Failed { .. }
        ));
        let ready = answer(&mut current, Order::Prepare(Spec::Syscall));
        assert!(matches!(ready, Answer::Ready { about } if about.contains("getppid")));
        assert!(matches!(answer(&mut current, run.clone()), Answer::Done(f) if f.elapsed_ns > 0));
        answer(&mut current, Order::Leave);
        assert!(matches!(
            answer(&mut current, run),
            Answer::Failed {
                displaced: false,
                ..
            }
        ));
        assert!(work(&["x".to_owned()]).is_err());
    }
}
