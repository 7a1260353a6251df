"""A private code-completion server that answers before the next keystroke."""
