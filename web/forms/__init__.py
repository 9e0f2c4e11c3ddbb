"""Forms: from what was typed to plain data, and back."""
