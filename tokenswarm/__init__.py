"""TokenSwarm: load testing for LLM servers, on Locust. Importing this package has no effect."""

__version__ = "0.1.0"
