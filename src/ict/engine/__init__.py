"""Training: `step` defines one update, `loop` repeats it; with state, schedules, batches, checkpoints, devices, ranks.

The only engine: no algorithm, estimator or command has a loop of its own. May import `data` and all below it.
"""
