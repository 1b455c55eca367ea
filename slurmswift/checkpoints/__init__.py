"""Judges checkpoint directories with the standard library alone."""
