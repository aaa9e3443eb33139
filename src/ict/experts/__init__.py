"""Models that are no networks: logistic regression, trees, label spreading on a graph; their weights and temperatures.

They are predictors of their own and the prior of anchored ICT. May import `engine` and all below it.
"""
