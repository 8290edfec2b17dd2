"""Readers of bills and statements: bytes in, lines out, one reader a format. They conclude nothing and know no database."""
