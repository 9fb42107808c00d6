"""Privacy curves δ(ε) of single mechanisms, their inverses, and the least noise for a target."""
