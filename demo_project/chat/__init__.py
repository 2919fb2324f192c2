"""The chat page: its model, its tools, and the view that makes the model answer."""
