"""Protection of assignments: their days, and overdue ones."""
