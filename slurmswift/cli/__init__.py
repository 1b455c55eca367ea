"""Faces a person: commands, messages, exit statuses."""
