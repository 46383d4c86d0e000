"""The graph of a task: its losses, its evaluation, and checks of what the task returned."""
