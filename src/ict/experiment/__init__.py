"""One run of a recipe: prepare, train, finish, result, in a run folder. `pool` trains several runs at once.

`result` alone knows what result.json holds. May import `recipes` and all below it.
"""
