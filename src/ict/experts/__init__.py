"""Models that learn from the labels alone or from a graph, how much to believe each, and the folds that judge them.

May import `base`, `data` and `engine`.
"""
