"""Models that learn from the labels alone or from a graph, and the folds that judge them.

May import `base`, `data` and `engine`.
"""
