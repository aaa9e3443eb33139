"""The scikit-learn interface: the estimators, the choice of a method, and fits to arrays.

May import `models` and all below it.
"""

AUTO = "auto"  # the name of the choice among methods, which no method has
