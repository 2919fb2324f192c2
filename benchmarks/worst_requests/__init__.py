"""A search for the request that costs a worker most, over all addresses of the API and of the admin."""
