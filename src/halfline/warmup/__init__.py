"""Computes in pauses what the next keystroke will ask."""
