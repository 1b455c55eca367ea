"""Talks to Slurm: argv builders, parsers, and the one module that starts processes."""
