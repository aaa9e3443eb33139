"""Readers of users' own files: folders of images or texts, arrays and tables, as a whole or as a stream.

May import `base` and `data`.
"""
