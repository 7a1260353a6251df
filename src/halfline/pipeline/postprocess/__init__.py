"""What an editor must never see: each file cuts one thing from a completion while it streams."""
