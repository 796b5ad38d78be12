"""Which dragoman this is: bundles and reports say which one wrote them."""

__version__ = "0.1.0"
