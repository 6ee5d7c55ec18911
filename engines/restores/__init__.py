"""Restores of each kind of source: databases into servers and files, folders to where they came from; and drills."""
