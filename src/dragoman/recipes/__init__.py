"""Recipes: schema, parsing, error messages, and the built-in recipes."""
