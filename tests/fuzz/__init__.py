"""Damaged files of every format that is read: each must load or end in a UserError.

`formats` has a valid sample and the reader of each format, `mutation` damages bytes, `run` tries many cases in forked
workers. `corpus/` keeps inputs that failed once.
"""
