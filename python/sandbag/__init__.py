# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Put a program under chosen CPU conditions, and see how well they were kept.

    import sandbag

    with sandbag.load(30, cpus=[0]) as held:
        work()
    print(held.result.verdict, held.result.cpus[0]["got_pct"])

    run = sandbag.run(["./bench"], load=30)
    frame = sandbag.sweep(["./bench"], load=[0, 30, 60], metric="wall").to_frame()

Conditions need what the command line needs (root, or a delegated group); `NotPossible` says
what is missing. Options of the command line are keywords: `pace_weight=3` is
`--pace-weight 3`, `True` is an option without a value, and a list of CPUs is `0,1`.
"""

from ._condition import Condition, load, replay, slow
from ._program import Busy, NotPossible, SandbagError, program
from ._run import Run, run
from ._sweep import Sweep, sweep

__all__ = [
    "Busy",
    "Condition",
    "NotPossible",
    "Run",
    "SandbagError",
    "Sweep",
    "load",
    "program",
    "replay",
    "run",
    "slow",
    "sweep",
]
