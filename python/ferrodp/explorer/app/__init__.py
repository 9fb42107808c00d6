"""The web application: routes, what they refuse, processes and their streams."""

DEFAULT_PORT = 8421
