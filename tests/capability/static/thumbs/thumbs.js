// Gives each answer its thumbs.
