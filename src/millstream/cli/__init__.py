"""The millstream command."""
