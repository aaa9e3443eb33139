"""`ict fit` and `ict predict`: from a user's files to a model, predictions, a report and what to label next.

May import `estimators`, `report` and all below them.
"""
