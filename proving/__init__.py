"""Proves the product's promises from outside. It may import everything; the wheel leaves it out.

bench/     the backlog measured next to its peers: `make bench`
upgrades/  the releases, and the rules for migrations of their tables: `python -m proving.upgrades.lint`
chaos/     workers, database and repositories killed at random, then an audit of the remains: `make chaos`
"""
