"""Restores of a point into a folder of this host."""
