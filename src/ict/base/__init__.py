"""The base of the package: user errors, typed options, atomic file writes, registries of names, random numbers.

Imports nothing else of this package.
"""
