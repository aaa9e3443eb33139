"""A user's own files: folders of images, arrays and tables, read whole or as a stream.

May import `base` and `data`.
"""
