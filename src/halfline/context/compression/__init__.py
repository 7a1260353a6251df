"""Passes that make the text of other files shorter before the model reads it."""
