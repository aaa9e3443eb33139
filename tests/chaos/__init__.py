"""Kills, errors and full disks at file operations; afterwards the same command must give what it gives undisturbed."""
