"""Programs and connections: started, watched, bounded, led to their servers only; no secret stays in what they print.

processes    programs: where they are, how they run and end, what orders ours take, and how output is read without trust
network      hosts: names, addresses, and the one way out for a program that speaks HTTP
public       which addresses are public
redaction    texts from outside, without the secrets that were given
durations    durations as people write them
formatting   instants, numbers and errors as people read them
sockets      how many sockets a process may hold open

Imports nothing of the project.
"""
