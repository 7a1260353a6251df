"""What the engine does per second, beside other engines and beside what the machine can do at most."""
