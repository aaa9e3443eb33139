"""Hyper-parameter search and many trials, with workers that share a database.

May import `experiment` and all below it.
"""
