"""How well assignments are protected: their days, what is overdue, and how their copies stand."""
