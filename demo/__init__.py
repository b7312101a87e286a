"""A real, small language model served on this machine, for `make stepload` without a TARGET and for the tests."""
