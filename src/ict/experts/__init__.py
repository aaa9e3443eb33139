"""Classical models on labels or a graph, their weights and temperatures, and the folds for cross-validation.

May import `base`, `data` and `engine`.
"""
