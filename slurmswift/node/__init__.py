"""Runs inside the job, with the standard library alone (Python 3.8 and newer)."""
