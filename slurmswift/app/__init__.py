"""Joins the parts: one module per use case; prints nothing, sleeps nowhere."""
