"""One run of a recipe: prepare, train, write the run folder; several runs at once.

May import `recipes` and all below it.
"""
