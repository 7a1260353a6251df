"""Answers that are known, and guesses at answers: what is kept of one request for the next that asks alike."""
