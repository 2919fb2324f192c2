"""The chat for a template of one's own: what its template tags draw."""
