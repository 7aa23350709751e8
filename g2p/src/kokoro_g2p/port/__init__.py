"""The reader as data for another language: rules, words, tables, and texts to check them by."""
