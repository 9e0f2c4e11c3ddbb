"""The dashboard: pages for people, on top of the API's own functions and in the same process."""
