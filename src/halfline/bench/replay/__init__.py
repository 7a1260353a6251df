"""People typing, played back against servers: what each keystroke cost, and what the answers were worth."""
