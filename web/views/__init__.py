"""What pages show, made ready for templates."""
