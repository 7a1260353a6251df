"""Two configurations side by side: the same tasks, teacher forced and free, and a verdict by margins set before."""
