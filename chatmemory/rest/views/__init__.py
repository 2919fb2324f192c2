"""The views, a module for each resource."""
