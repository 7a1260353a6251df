"""Other engines on the same weights. None of them is a dependency: each runs as a program of its own."""
