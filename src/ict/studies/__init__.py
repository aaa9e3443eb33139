"""Hyper-parameter search and recipes over seeds: trials in a database that any number of workers share.

May import `paper`, `report` and all below them.
"""
