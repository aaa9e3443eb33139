"""The parts that all HTML reports share.

May import `base`.
"""
