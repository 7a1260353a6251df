"""API keys: what one is, where they are kept, and how much each may ask for. Nothing here knows HTTP."""
