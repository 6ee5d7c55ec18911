"""A fleet in virtual time: the sources that each scheduler would protect, and the limit of the possible.

fleet_file    the fleet to simulate: a JSON file
machines      a source as it behaves: when it is there, how long its backups take
results       protected sources by period, and the cost
fifo, proactive   two published schedulers, as small models
lookahead/    the product's own decisions on a virtual clock, in memory or in a database
bound         the limit that no scheduler can exceed
fleets        the fleets of our measurements, from a seed
"""
