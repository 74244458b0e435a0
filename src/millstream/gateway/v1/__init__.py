"""httpmq's API, compatible with its clients."""
