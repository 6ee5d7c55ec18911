"""Proves from outside what the product promises. It may import everything; the wheel leaves it out.

bench/   the backlog measured next to its peers: `make bench`
upgrades/  what a release was, and what migrations may do to its tables: `python -m proving.upgrades.lint`
chaos/   workers, database and repositories killed at random, then an audit of all that is left: `make chaos`
"""
