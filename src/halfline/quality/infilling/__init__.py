"""Holes in real code, filled through the whole pipeline and judged."""
