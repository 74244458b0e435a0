"""The checks of `millstream doctor`: each looks at one thing and says what to change."""
