// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process that works: it reads orders and answers.

use std::io::{self, BufRead as _, Write as _};

use super::bench::TestBench;
use super::order::{Answer, WORK_VERB, WorkOrder};
use super::run;
use super::test_work::WorkFault;

/// The hidden verb. Returns when standard input ends.
pub fn work(arguments: &[String]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err(format!("{WORK_VERB} is for sandbag's own use"));
    }
    let mut bench = TestBench::default();
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|cause| cause.to_string())?;
        let Ok(order) = serde_json::from_str::<WorkOrder>(&line) else {
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

fn answer(bench: &mut TestBench, order: WorkOrder) -> Answer {
    act(bench, order).unwrap_or_else(Answer::Failed)
}

fn act(bench: &mut TestBench, order: WorkOrder) -> Result<Answer, WorkFault> {
    match order {
        WorkOrder::Prepare { test, spec } => {
            let about = bench.prepare(test, &spec).map_err(WorkFault::Work)?;
            Ok(Answer::Ready { about })
        }
        WorkOrder::Leave { test } => {
            bench.leave(test);
            Ok(Answer::Ready {
                about: String::new(),
            })
        }
        WorkOrder::Run {
            test,
            cpu,
            units,
            warm,
        } => {
            let work = bench.get(test).map_err(WorkFault::Work)?;
            run::warm(work, cpu, warm)?;
            run::run(work, cpu, units).map(Answer::Done)
        }
        WorkOrder::Accounting { cpu } => {
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
        let mut bench = TestBench::default();
        let run = WorkOrder::Run {
            test: 3,
            cpu,
            units: 100,
            warm: 1,
        };
        let not_prepared = Answer::Failed(WorkFault::Work("it was not prepared".to_owned()));
        assert_eq!(answer(&mut bench, run.clone()), not_prepared);
        let ready = answer(
            &mut bench,
            WorkOrder::Prepare {
                test: 3,
                spec: Spec::Syscall,
            },
        );
        assert!(matches!(ready, Answer::Ready { about } if about.contains("getppid")));
        assert!(matches!(answer(&mut bench, run.clone()), Answer::Done(f) if f.elapsed_ns > 0));
        answer(&mut bench, WorkOrder::Leave { test: 3 });
        assert_eq!(answer(&mut bench, run), not_prepared);
        assert!(work(&["x".to_owned()]).is_err());
    }
}
