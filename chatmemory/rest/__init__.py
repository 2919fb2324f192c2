"""The REST API, on Django REST framework."""
