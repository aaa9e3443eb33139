"""What every HTML report page shares.

May import `base`.
"""
