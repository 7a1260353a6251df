"""One request from `CompletionRequest` to `Completion`."""
