"""Proves that a released version becomes the next one beside workers that go on.

releases.py  what was released: the commit, the leaves of its migrations, a dump of a database of it
rules.py     what a migration may do to tables that a release uses
lint.py      `python -m proving.upgrades.lint`: the migrations since the newest release, by these rules
"""
