"""Files out of a repository when the scheduler itself is gone: the program `recover`, and RECOVER.txt for people."""
