"""The ways of a stored message to a client without a consumer: direct gets, single and in batches."""
