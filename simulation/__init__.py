"""A fleet in virtual time: what each scheduler would protect of it, and what was possible at all.

fleet_file    the fleet to simulate: a JSON file
machines      a source as it behaves: when it is there, how long its backups take
results       what was protected, by period, and what it cost
fifo, proactive   two published schedulers, as small models
lookahead/    the product's own decisions on a virtual clock, in memory or in a database
bound         the limit that no scheduler can exceed
fleets        the fleets that we measure by, from a seed
"""
