"""Going back in long conversations, beside short ones."""
