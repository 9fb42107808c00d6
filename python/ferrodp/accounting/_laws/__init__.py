"""What is known of single events: costs that add up, dominating pairs of laws, and the curves that both come from."""
