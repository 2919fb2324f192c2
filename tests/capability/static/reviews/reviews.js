// Shows at each answer whether it is correct.
