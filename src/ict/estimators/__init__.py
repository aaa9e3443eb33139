"""The scikit-learn interface: `classifier` has the estimators, `auto` chooses a method, `fitter` fits one to arrays.

May import `models` and all below it.
"""

AUTO = "auto"  # the name of the choice among methods, which no method has
