"""What the playground, the account, the attacks and the audits compute; nothing here knows the web."""
