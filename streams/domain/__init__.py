"""The law: one pure function over everything known about a merchant order. No clock, chance, I/O, float or logging."""
