"""What a model is: its files, its shape, its weights, and the plain forward pass that specifies it."""
