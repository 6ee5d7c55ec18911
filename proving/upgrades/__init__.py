"""Proves that a released version becomes the next one while its workers continue.

releases.py  the releases: the commit, the leaves of its migrations, a dump of one of its databases
rules.py     the rules for migrations of tables that a release uses
fixture.py   a small dump of a commit's database: `make release-fixture`; rows.py makes its rows
rows_hold.py validates each row by the newest program
checkout.py  the files of another commit
lint.py      `python -m proving.upgrades.lint`: the migrations since the newest release, by these rules
"""
