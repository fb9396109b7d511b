"""The measuring instrument: suites in, honest rows out, and the judgements made from them."""

SCHEMA_VERSION = 1
