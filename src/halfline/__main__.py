"""`python -m halfline` is the command `halfline`."""

from halfline.cli.entry import main

if __name__ == "__main__":
    main()
