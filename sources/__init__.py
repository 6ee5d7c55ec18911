"""Sources: what to protect, when, and whether it is there.

models         sources, policies, repositories, assignments, and the backups made of them
domain         the rules, pure: windows, days, retention, suspicion
planning       due work, put on the backlog; and the related requests of users, operators and agents
availability   whether a source is there: asked, woken, followed to its new address
agents         sources that report for themselves
declarations   the values that may be declared, and those that are refused
protection     the outcome of each day, overdue assignments, and the state of copies
"""
