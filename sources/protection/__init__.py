"""Protection of assignments: their days, and what is overdue."""
