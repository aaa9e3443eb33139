"""What everything else stands on: user errors, typed fields, files, registries of names, random numbers.

Imports nothing else of this package.
"""
