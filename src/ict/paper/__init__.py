"""The paper's tables and figure, the demo, and the comparison of methods.

May import `experiment` and all below it.
"""
