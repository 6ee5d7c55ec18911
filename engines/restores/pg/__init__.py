"""The way of a PostgreSQL dump from its file into a database. Restores and drills share it.

contents.py      the contents of a dump: its objects, and the rows of its tables
loader.py        the database that it goes into, and how programs run there
target.py        the server, asked before a dump is fetched
connections.py   connections to the server of a source
dump_restore.py  makes a database there, and fills it
logins.py        the login that loads it
owners.py        hands over the objects that it has loaded
steps.py         loads all that can be loaded, and names the rest
scripts.py       plays its statements
failures.py      the statements and rows that the server did not take, described
leftover.py      the same as a file to run, for users who may restore
roles.py         roles that the server lacks
databases.py     the database itself: locale, owner, rights, settings
"""
