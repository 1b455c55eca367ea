"""slurmswift keeps training runs alive on clusters run by Slurm."""

__version__ = "0.1.0"
