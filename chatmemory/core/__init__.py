"""Messages, windows, token counts and stores in memory. Nothing here needs Django."""
