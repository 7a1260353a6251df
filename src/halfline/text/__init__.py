"""Text to token ids and back, without ever cutting a character or inventing a marker."""
