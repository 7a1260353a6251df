"""Tasks for judging answers: published sets, packages younger than the model, and anybody's own files."""
