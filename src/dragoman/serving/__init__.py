"""The translation service: an HTTP process, engine processes that translate, and a bounded queue between them."""
