"""How long searches take, how large their index is, and what it adds to an addition."""
