"""What a search finds of what the window forgot, on public sets of questions."""
