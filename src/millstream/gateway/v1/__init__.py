"""httpmq's API, as its clients know it."""
