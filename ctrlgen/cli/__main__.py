"""``python -m ctrlgen.cli``."""

from ctrlgen.cli import main

if __name__ == "__main__":
    main()
