"""Recovery of files from a repository when the scheduler is gone: the program `recover`, and RECOVER.txt
for readers.
"""
