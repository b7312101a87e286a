"""How far a client's own state may go before its figures are doubtful (the first of a pair), or of no use (the second).

One set for the live page and for the report, so that they cannot disagree.
"""

# Of requests read later than half a median ITL: p95 is touched. Never of no use by itself: stamps are the kernel's.
LATE_READS = (0.05, 1.0)
MERGED_CHUNKS = (0.01, 0.05)  # of chunks: a merged one reads as a gap of 0; p99 is touched first, then p95
USER_TIMES = (0.01, 1.0)  # of requests: their times are those of the reading
CPU_OF_CORE = (0.80, 0.90)  # Locust's own line is 90 %; above 80 % a burst already queues
MISSING_USERS = (0.02, 0.10)  # of the target: the step is labelled with a load that was not there
STOLEN = (0.05, 1.0)  # of the machine's CPU time: so much of all arrivals has a later time. Never of no use by itself
CLOCK_STEP_S = (0.001, 0.1)  # total movement: 1 ms is a slewing clock, 100 ms puts TTFT off by that much
