"""A dump of PostgreSQL, from its file into a database. One way for restores and drills.

contents.py   what a dump holds: its objects, and the rows of its tables
loading.py    loads all that can be loaded, and names the rest
"""
