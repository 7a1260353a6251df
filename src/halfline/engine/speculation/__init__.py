"""Guesses what a sequence will say next, so that one step can check several tokens; never what it says."""
