// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Weight and slice of `pace` that a user asked for: what its burners have.

use sandbag_linux::sched::{Attributes, attributes_of};

use crate::prelude::*;

cases! { CASES: root;
    burners_have_the_weight_and_the_slice_that_were_asked_for,
}

/// The slice of a burner, ns; 0 is the kernel's own on those before 6.12.
fn slice_ns(burner: Pid) -> Result<u64> {
    match attributes_of(burner.as_raw().cast_unsigned())? {
        Attributes::Fair { slice_ns, .. } => Ok(slice_ns),
        other => anyhow::bail!("a burner with {other:?}"),
    }
}

/// The file with the weight of a burner's group, and what a default group has there.
fn weight_file(burner: Pid) -> Result<(PathBuf, f64)> {
    for line in groups_of(burner)?.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = fields.next().zip(fields.next()).context("no group")?;
        let (file, unit) = match controllers {
            "" => (format!("/sys/fs/cgroup{path}/cpu.weight"), 100.0),
            list if list.split(',').any(|name| name == "cpu") => {
                (format!("/sys/fs/cgroup/{list}{path}/cpu.shares"), 1024.0)
            }
            _ => continue,
        };
        if Path::new(&file).exists() {
            return Ok((file.into(), unit));
        }
    }
    anyhow::bail!("no group with a weight")
}

/// The weight of a burner's group, in those of a default group.
fn weight(burner: Pid) -> Result<f64> {
    let (file, unit) = weight_file(burner)?;
    Ok(fs::read_to_string(file)?.trim().parse::<f64>()? / unit)
}

fn burners_have_the_weight_and_the_slice_that_were_asked_for(place: &MachinePlace) -> Result<()> {
    let refused = place.run("load 50 --cpus 0 -d 1s --no-out --pace-weight 200")?;
    refused.expect(2)?.says(&["between 0.01 and 100"])?;
    let slice = "load 50 --cpus 0 -d 1s --no-out --pace-slice 5ms --dry-run";
    let has_slices = match place.run(slice)?.code() {
        0 => true,
        5 => false,
        code => anyhow::bail!("{slice}: exit code {code}"),
    };
    let slice = if has_slices { "5ms" } else { "kernel" };
    let run = place.start(&format!(
        "load 50 --cpus 0 -d 60s --out run -q --pace-weight 3 --pace-slice {slice}"
    ))?;
    let burner = place.burners(1)?[0];
    wait_for("the weight", || (weight(burner).ok()? == 3.0).then_some(()))?;
    // As a reload of systemd changes it.
    let (file, unit) = weight_file(burner)?;
    fs::write(file, (7.0 * unit).to_string())?;
    wait_for("the weight after another's", || {
        (weight(burner).ok()? == 3.0).then_some(())
    })?;
    if has_slices {
        wait_for("the slice", || {
            (slice_ns(burner).ok()? == 5_000_000).then_some(())
        })?;
    }
    kill(pid_of(&run), Signal::SIGINT)?;
    finish(run)?.judged()?;
    let record = fs::read_to_string(place.path("run/run.json"))?;
    ensure!(record.contains("3, as asked"), "{record}");
    Ok(())
}
