"""Training: the step, the loop around it, state, schedules, checkpoints and devices.

May import `base`, `contract`, `ops`, `networks`, `algorithms` and `data`.
"""
