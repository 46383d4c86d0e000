"""The processes of this project: the guard around a program, its children, and its journals."""
