"""The text around a cursor: what is known of one open document, and what was suggested in it."""
