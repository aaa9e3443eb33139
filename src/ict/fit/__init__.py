"""`ict fit` and `ict predict`: from a user's files to a model, predictions and a report.

May import `estimators` and all below it.
"""
