"""Turns token ids into more token ids: sequences, scheduling, the loop thread, its async handle."""
