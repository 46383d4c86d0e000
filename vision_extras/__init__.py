"""Modes on finished runs, on files of other programs and on other machines.

Nothing below imports it: `model_fns.extras` finds its modules by name, and says what is missing
where the folder is absent.
"""
