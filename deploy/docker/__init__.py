"""The container image, and what runs in it beside the service itself."""
