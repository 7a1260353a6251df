"""The language server: an editor's keystrokes in, a running halfline's completions out."""
