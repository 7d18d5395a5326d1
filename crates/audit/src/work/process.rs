// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process that works: it reads orders and answers.

use std::io::{self, BufRead as _, Write as _};

use super::run::{self, Fault};
use super::{Answer, Bench, Order, WORK_VERB};

/// The hidden verb. Returns when whoever gives the orders has gone.
///
/// # Errors
/// It was not started by an audit.
pub fn work(arguments: &[String]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err(format!("{WORK_VERB} is for sandbag's own use"));
    }
    let mut bench = Bench::default();
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|cause| cause.to_string())?;
        let Ok(order) = serde_json::from_str::<Order>(&line) else {
            return Err(format!("{WORK_VERB} is for sandbag's own use"));
        };
        let answer = answer(&mut bench, order);
        let text = serde_json::to_string(&answer).map_err(|cause| cause.to_string())?;
        let mut out = io::stdout().lock();
        if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
            break;
        }
    }
    Ok(())
}

fn answer(bench: &mut Bench, order: Order) -> Answer {
    match act(bench, order) {
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

fn act(bench: &mut Bench, order: Order) -> Result<Answer, Fault> {
    match order {
        Order::Prepare { test, spec } => {
            let about = bench.prepare(test, &spec).map_err(Fault::Work)?;
            Ok(Answer::Ready { about })
        }
        Order::Leave { test } => {
            bench.works.remove(&test);
            Ok(Answer::Ready {
                about: String::new(),
            })
        }
        Order::Run {
            test,
            cpu,
            units,
            warm,
        } => {
            let work = bench.get(test).map_err(Fault::Work)?;
            run::warm(work, cpu, warm)?;
            run::run(work, cpu, units).map(Answer::Done)
        }
        Order::Accounting { cpu } => {
            let (runs, zeros) = run::accounting(cpu)?;
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
        let cpu = sandbag_linux::sched::affinity(0).unwrap();
        let cpu = cpu.iter().next().unwrap();
        let mut bench = Bench::default();
        let run = Order::Run {
            test: 3,
            cpu,
            units: 100,
            warm: 1,
        };
        assert!(matches!(
            answer(&mut bench, run.clone()),
            Answer::Failed { .. }
        ));
        let ready = answer(
            &mut bench,
            Order::Prepare {
                test: 3,
                spec: Spec::Syscall,
            },
        );
        assert!(matches!(ready, Answer::Ready { about } if about.contains("getppid")));
        assert!(matches!(answer(&mut bench, run.clone()), Answer::Done(f) if f.elapsed_ns > 0));
        answer(&mut bench, Order::Leave { test: 3 });
        assert!(matches!(
            answer(&mut bench, run),
            Answer::Failed {
                displaced: false,
                ..
            }
        ));
        assert!(work(&["x".to_owned()]).is_err());
    }
}
