"""The chat page: its model, its tools, and the address that makes the model answer."""
