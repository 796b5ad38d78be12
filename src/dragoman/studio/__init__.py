"""The studio: a local web application to translate with a model and look inside it."""
