"""Proves that a released version becomes the next one beside workers that go on.

releases.py  what was released: the commit, the leaves of its migrations, a dump of a database of it
rules.py     what a migration may do to tables that a release uses
fixture.py   a database of a commit, as a small dump: `make release-fixture`; rows.py makes its rows
rows_hold.py what the newest program says of each row
checkout.py  the files of another commit
lint.py      `python -m proving.upgrades.lint`: the migrations since the newest release, by these rules
"""
