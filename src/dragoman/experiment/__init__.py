"""A described run: the recipe, the choices made for you, and the wiring of data, model, trainer and validator."""
