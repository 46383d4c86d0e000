"""Entry point of `python -m model_fns.datasets.convert`."""

from model_fns.datasets.convert import main

if __name__ == '__main__':
    main()
