"""Restores and drills: asked for, run, and noted."""
