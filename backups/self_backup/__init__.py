"""The scheduler's own backup: its database, keys and settings, each day, into a repository; and the way back.

    archive.py    the file: a tar, sealed with age; the key that opens it, sealed by a passphrase. No Django
    backing_up.py the day's record: dump, pack, seal, put
    restoring.py  `database restore` on an empty machine

In the repository, outside its encrypted part:

    scheduler/key.age                          the age identity, sealed by the passphrase
    scheduler/20261121T065755Z.tar.age         a day, sealed for that identity

So any age program opens it with the passphrase: `age -d key.age > key; age -d -i key 2026….tar.age | tar x`.
"""
