"""The database backend of the tests on PostgreSQL: Django's, without server-side cursors."""
