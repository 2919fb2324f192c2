"""The smallest API that keeps a message: a model, a view that inserts one row, and nothing else."""
