"""A child process that ends at once."""


def main() -> None:
    raise SystemExit("no room")
