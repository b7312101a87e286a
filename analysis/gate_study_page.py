"""The words around the gate study's table: docs/gate-study.md."""

from analysis.gate_study_law import PARETO_SHAPE, PARETO_SHARE, STUDENT_DF, Case
from analysis.spread import ASSUMED

USUAL = Case(name="")
TEXT = f"""# How often the gate is wrong

Written by `make gate-study` (`python -m analysis.gate_study`); do not edit it here. {{gates}} gates, seed {{seed}}.

Each gate is a pair of simulated runs, judged by the gate's own code: {USUAL.users} users in a closed loop, a window of
{USUAL.window_s:.0f} s unless the row says otherwise, about 240 requests. The load of the server, in the logarithm of TTFT
and of TPOT, is an AR(1) process whose correlation falls to 1/e within 2 s ("slow load swings": 5 s, longer than a request).
On top comes chance: log-normal and, in {PARETO_SHARE:.0%} of the requests, a multiple with a Pareto tail (shape
{PARETO_SHAPE}) for TTFT; Student's t with {STUDENT_DF} degrees of freedom for TPOT. Requests that are open when the window
closes are censored, as in real runs. "Noisy" and "steady" are a server on which all of that varies by twice and by a quarter
as much; "runs differ by" is a factor of each run's own, which no run shows by itself. A change that is exactly as large as
its budget is the hardest: it must not pass, and cannot often fail.

| true change | budgets | interval | gates | pass | at best | inconclusive | fail | invalid | must hold | holds |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
{{rows}}

**interval**: how far that of a change usually reaches beyond the change, to the bad side. **at best**: how many would pass, at
the same risk, if the gate knew exactly how much the change varies by chance. No run tells that, so it is the most that any
gate could pass by these figures.

How to read it: a gate that is not sure says so. Of identical runs of a minute most are undecided, and nearly all that could
be decided are: what is missing is requests. A p95 with heavy tails is not known any better from 240 of them, and the gate is
nearly as good as one that knew the noise. With one baseline run the median of TPOT could be decided more often; what it waits
for is the spread of {ASSUMED.sd:.0%} from run to run that is assumed where nobody measured it. Longer runs narrow the first,
more baseline runs and `make calibrate` the second, a steadier server both.

Two rows are allowed 3 %, since the risk of 1 % is not kept there: load swings that are longer than a request leave too few of
them in a minute to tell how large they are, and runs that differ by far more than is assumed are not shown well enough by five.
"""
