"""GPU operations that libraries lack or run slowly, in Triton, which importing them needs.

Imports nothing else of this package.
"""
