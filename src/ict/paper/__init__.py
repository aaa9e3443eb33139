"""The paper's tables beside our runs, its figure of two moons, the demo, and methods compared on equal terms.

May import `experiment` and all below it.
"""
