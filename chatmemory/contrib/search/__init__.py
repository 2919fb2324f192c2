"""Search in what was said: an index in the project's database, for people and for models. See docs/search.md."""
