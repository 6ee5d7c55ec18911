"""A dump of PostgreSQL, from its file into a database. One way for restores and drills.

contents.py   what a dump holds: its objects, and the rows of its tables
loader.py     the database that it goes into, and how programs run there
target.py     the server, asked before a dump is fetched
connections.py  to the server of a source
filling.py    makes a database there, and fills it
logins.py     the login that loads it
owners.py     hands over what it has loaded
steps.py      loads all that can be loaded, and names the rest
scripts.py    plays its statements
failures.py   what the server did not take, in words
leftover.py   the same as a file to run, for those who may restore
roles.py      roles that the server lacks
databases.py  the database itself: locale, owner, rights, settings
"""
