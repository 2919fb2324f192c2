"""LangChain4j's JSON: messages to text, and back."""
