"""Bulk translation of many files in several processes; runs that are killed can be resumed."""
