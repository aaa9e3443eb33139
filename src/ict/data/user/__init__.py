"""Readers of users' own files: images, texts, tables and arrays. `read` chooses the reader by the kind of the path.

All of them return the classes of `records`, and `subsets` makes the training data of those. May import `data` and all
below it.
"""
