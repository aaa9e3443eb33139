"""The paper's tables and figure, the demo, and methods side by side.

May import `experiment` and all below it.
"""
