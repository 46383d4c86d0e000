"""The processes of this project: the guard around a program, and children without strangers."""
