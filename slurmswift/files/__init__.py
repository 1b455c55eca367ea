"""Talks to the shared file system: recipes, templates, run directories, locks, logs."""
