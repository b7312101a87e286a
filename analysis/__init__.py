"""From a run folder to answers: load → steady windows → summary → health → table, curve, summary.csv.

Each stage is a function from frame to frame; none both computes and draws. Imports neither locust nor gevent.
"""
