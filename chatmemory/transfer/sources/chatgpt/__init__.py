"""The data export of ChatGPT."""
