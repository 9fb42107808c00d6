"""What several tests share: one loader for each kind of data, and children, ledgers and watchers of processes."""
