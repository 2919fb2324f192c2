"""Turns over HTTP: a user says something, and the project's assistant answers."""
