"""Which part of a document and its surroundings the model reads."""
