"""What storing the usage of calls costs, how fast its sums are, and whether killed processes count a call twice."""
