"""What runs on the nodes of Citus."""
