"""Around the choice of a channel: books from files, asks from moments, decisions in words, and trials of a book before it holds."""
