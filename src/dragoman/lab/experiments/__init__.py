"""The experiments: one file each, which defines EXPERIMENT; the name of the file is the name of the experiment."""
