"""The scikit-learn front: the estimators, the choice of a method, and what is fitted to arrays.

May import `models` and all below it.
"""
