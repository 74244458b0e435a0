"""The checks of `millstream doctor`: each examines one thing and adds findings with advice."""
