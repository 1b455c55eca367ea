"""Decides: pure values and functions; no clock, disk, process or environment."""
