"""Messages of Pydantic AI: ``parts`` for both directions, ``writer`` for requests that any provider behind it takes."""
