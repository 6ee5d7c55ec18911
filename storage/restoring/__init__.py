"""Restores of a point into a folder on this host."""
