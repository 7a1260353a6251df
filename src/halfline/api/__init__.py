"""HTTP: dialects in, `CompletionRequest` out, and the way back."""
