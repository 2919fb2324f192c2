"""The tables of other frameworks in a database."""
