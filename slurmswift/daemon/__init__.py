"""Faces the machine: the watcher's loop, its signals."""
