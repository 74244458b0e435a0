"""Read one range of a stream in a task: one module for each transport, combined by `ranges`."""
