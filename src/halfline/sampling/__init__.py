"""From logits to one token, and when to stop."""
