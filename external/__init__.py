"""Programs and connections: started, watched, bounded, limited to their servers; no secret stays in their output.

processes    programs: where they are, how they run and end, orders to child processes, and output read without trust
network      hosts: names, addresses, and the one way out for a program that speaks HTTP
public       the public addresses
redaction    texts from outside, without the secrets that were given
durations    durations as users write them
formatting   instants, numbers and errors as users read them
sockets      the number of sockets that a process may hold open

Imports nothing of the project.
"""
