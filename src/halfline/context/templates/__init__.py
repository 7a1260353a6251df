"""Frequent tasks as templates: what they say to a model, which placeholders they have, which version whom."""
