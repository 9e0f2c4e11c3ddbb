"""The REST API: Flask over the stored state."""
