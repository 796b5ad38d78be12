"""A run, from its recipe to its bundle: planning, checks, preparation, launchers, training and the log."""
