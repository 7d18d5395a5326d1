// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the launcher of a parallel program says of this process: rank and number of ranks. Pure, but for [`launched`].
//!
//! A launcher inside another one counts, so `mpirun` in an allocation of Slurm is asked first.
//! Rank and size come from one family of variables and must fit together; others are ignored.

/// A process among those that were started together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    /// Whose variables these are: `Slurm`, `Open MPI`, ...
    pub by: &'static str,
    /// Counted from 0.
    pub rank: u32,
    pub size: u32,
}

/// The variables of one launcher.
struct Family {
    by: &'static str,
    rank: &'static str,
    size: &'static [&'static str],
}

/// The rank that the user gives, or that sandbag passes on to its own processes.
pub const RANK: &str = "SANDBAG_RANK";
/// How many there are.
pub const RANKS: &str = "SANDBAG_RANKS";
/// The launcher that started the process which passes them on: another one is within it.
const BY: &str = "SANDBAG_BY";

/// The environment of a process that takes this place.
pub fn passed_on(rank: u32, size: u32) -> [(&'static str, String); 3] {
    let by = outer(&|name| std::env::var(name).ok());
    let by = by.map_or("none", |one| one.by);
    [
        (RANK, rank.to_string()),
        (RANKS, size.to_string()),
        (BY, by.to_owned()),
    ]
}

const SLURM: &str = "Slurm";

/// The inner ones first.
const FAMILIES: [Family; 7] = [
    Family {
        by: "Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        size: &["OMPI_COMM_WORLD_SIZE"],
    },
    Family {
        by: "Hydra",
        rank: "PMI_RANK",
        size: &["PMI_SIZE"],
    },
    Family {
        by: "MVAPICH2",
        rank: "MV2_COMM_WORLD_RANK",
        size: &["MV2_COMM_WORLD_SIZE"],
    },
    Family {
        by: "PALS",
        rank: "PALS_RANKID",
        size: &["PALS_NRANKS"],
    },
    Family {
        by: "jsrun",
        rank: "JSM_NAMESPACE_RANK",
        size: &["JSM_NAMESPACE_SIZE"],
    },
    Family {
        by: "Flux",
        rank: "FLUX_TASK_RANK",
        size: &["FLUX_JOB_SIZE"],
    },
    Family {
        by: SLURM,
        rank: "SLURM_PROCID",
        size: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
    },
];

/// Slurm's steps from this number on are no programs of a user (batch script, extern).
const FIRST_SPECIAL_STEP: u32 = 0xffff_fff0;

/// What the environment says; `None` where nothing launched this process.
pub fn launched() -> Option<Launched> {
    from(|name| std::env::var(name).ok())
}

fn from(get: impl Fn(&str) -> Option<String>) -> Option<Launched> {
    let number = |name: &str| get(name)?.trim().parse::<u32>().ok();
    let own = number(RANK).zip(number(RANKS));
    let own = own.filter(|(rank, size)| rank < size);
    let own = own.map(|(rank, size)| Launched {
        by: "sandbag",
        rank,
        size,
    });
    let outer = outer(&get);
    let is_new = |one: &Launched| get(BY).is_some_and(|by| by != one.by);
    match (own, outer) {
        (Some(own), Some(other)) if !is_new(&other) => Some(own),
        (own, other) => other.or(own),
    }
}

/// What launchers say; sandbag is none of them.
fn outer(get: &impl Fn(&str) -> Option<String>) -> Option<Launched> {
    let number = |name: &str| get(name)?.trim().parse::<u32>().ok();
    let of = |family: &Family| {
        // The script of a batch job has a rank, too.
        let is_step = || number("SLURM_STEP_ID").is_some_and(|id| id < FIRST_SPECIAL_STEP);
        if family.by == SLURM && !is_step() {
            return None;
        }
        let rank = number(family.rank)?;
        let size = family.size.iter().find_map(|name| number(name))?;
        (rank < size).then_some(Launched {
            by: family.by,
            rank,
            size,
        })
    };
    FAMILIES.iter().find_map(of).or_else(|| from_oar(get))
}

/// OAR starts one process only; the others come by its remote shell, without ranks. The host's
/// place in the list of the job's hosts is its rank.
fn from_oar(get: &impl Fn(&str) -> Option<String>) -> Option<Launched> {
    let file = ["OAR_NODEFILE", "OAR_NODE_FILE"]
        .iter()
        .find_map(|name| get(name))?;
    let text = std::fs::read_to_string(file).ok()?;
    let host = nix::unistd::gethostname().ok()?.into_string().ok()?;
    in_list(&text, &host)
}

/// `host` among the lines of `text`, of which each names a host, once per core.
fn in_list(text: &str, host: &str) -> Option<Launched> {
    let mut hosts: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if !hosts.contains(&line) {
            hosts.push(line);
        }
    }
    let place = hosts.iter().position(|name| is_same_host(name, host))?;
    Some(Launched {
        by: "OAR",
        rank: place as u32,
        size: hosts.len() as u32,
    })
}

/// Whether two names are one host's: with or without its domain.
pub fn is_same_host(a: &str, b: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    a == b || (short(a) == short(b) && (!a.contains('.') || !b.contains('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(words: &str) -> Option<Launched> {
        let pairs: Vec<(String, String)> = words
            .split_whitespace()
            .filter_map(|word| word.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        from(|name| {
            let found = pairs.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        })
    }

    #[test]
    fn each_launcher_says_rank_and_size() {
        for (words, name, rank, size) in [
            (
                "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4",
                "Open MPI",
                3,
                4,
            ),
            ("PMI_RANK=0 PMI_SIZE=2", "Hydra", 0, 2),
            (
                "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_ID=0",
                "Slurm",
                1,
                2,
            ),
            ("SANDBAG_RANK=1 SANDBAG_RANKS=3", "sandbag", 1, 3),
        ] {
            let found = by(words).unwrap();
            assert_eq!((found.by, found.rank, found.size), (name, rank, size));
        }
    }

    #[test]
    fn the_inner_launcher_counts_and_half_a_family_does_not() {
        let slurm = "SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_ID=0";
        let found = by(&format!(
            "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 {slurm}"
        ));
        assert_eq!(found.unwrap().by, "Open MPI");
        let found = by(&format!("OMPI_COMM_WORLD_RANK=3 {slurm}"));
        assert_eq!(found.unwrap().by, "Slurm");
        // A batch script is no step; a rank beyond the size is no rank.
        assert_eq!(by("SLURM_PROCID=0 SLURM_NTASKS=1"), None);
        assert_eq!(
            by("SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_ID=4294967291"),
            None
        );
        assert_eq!(by("PMI_RANK=2 PMI_SIZE=2"), None);
        assert_eq!(by(""), None);
    }

    #[test]
    fn what_sandbag_passes_on_counts_unless_a_launcher_is_within_it() {
        let passed = "SANDBAG_RANK=1 SANDBAG_RANKS=2 SANDBAG_BY=Slurm";
        let slurm = "SLURM_PROCID=5 SLURM_NTASKS=8 SLURM_STEP_ID=0";
        assert_eq!(by(&format!("{passed} {slurm}")).unwrap().rank, 1);
        let mpi = "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4";
        assert_eq!(by(&format!("{passed} {slurm} {mpi}")).unwrap().rank, 3);
        // Given by a user, in whatever environment.
        let given = "SANDBAG_RANK=1 SANDBAG_RANKS=2";
        assert_eq!(by(&format!("{given} {mpi}")).unwrap().rank, 1);
    }

    #[test]
    fn a_host_is_found_in_a_list_with_or_without_its_domain() {
        let list = "n1.site\nn1.site\nn2.site\n\nn3.site\n";
        let found = in_list(list, "n2").unwrap();
        assert_eq!((found.rank, found.size), (1, 3));
        assert_eq!(in_list(list, "n4"), None);
        assert!(!is_same_host("n1.a", "n1.b") && is_same_host("n1", "n1.b"));
    }
}
