"""What an operator does with the store as a whole: migrate it, back it up, restore it, export from it."""
