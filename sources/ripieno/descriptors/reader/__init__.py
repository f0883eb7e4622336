"""Reader of tables with declared keys: kinds of values, positions in the text, problems with their lines."""
