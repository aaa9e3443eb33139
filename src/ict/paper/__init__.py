"""The paper's tables beside our runs, its figure of two moons, the demo, and methods compared under one protocol.

May import `experiment` and all below it.
"""
