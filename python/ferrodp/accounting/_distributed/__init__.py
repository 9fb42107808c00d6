"""What many parties release together: sums of shares of noise, messages in random order."""
