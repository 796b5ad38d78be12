"""Bundles as an HTTP service: a process that speaks HTTP, engine processes that translate, a bounded queue between."""
