"""`python -m mmchain` is the command `mmchain`."""

from _mmchain_command import main

if __name__ == "__main__":
    main()
