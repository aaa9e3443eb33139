"""What every folder needs and no library has: user errors, typed options, atomic files, registries, random numbers.

Imports nothing else of this package.
"""
