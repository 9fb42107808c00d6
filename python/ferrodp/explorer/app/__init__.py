"""The web application: routes, what they refuse, processes and their streams."""
