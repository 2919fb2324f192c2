"""The hot statements as SQL, compiled by the ORM once per database."""
