"""Reading one range of a stream in a task: one module for each way, `ranges` around them."""
