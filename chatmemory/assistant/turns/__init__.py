"""One turn at a time: the right to speak in a conversation while the model thinks."""
