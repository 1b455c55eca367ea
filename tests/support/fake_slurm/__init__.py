"""A Slurm that is one locked file: for tests of what slurmswift does around Slurm's answers."""
