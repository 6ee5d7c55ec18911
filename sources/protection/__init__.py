"""How well assignments are protected: their days, and what is overdue."""
