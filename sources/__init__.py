"""What to protect, when, and whether it is there.

models         sources, policies, repositories, assignments, and what was made of them
domain         the rules, pure: windows, days, retention, suspicion
planning       what is due, put on the backlog; and what people and agents ask for about it
availability   whether a source is there: asked, woken, followed to its new address
agents         sources that report for themselves
declarations   what of it people may declare, and what is refused
protection     what became of each day, what is overdue, and how copies stand
"""
