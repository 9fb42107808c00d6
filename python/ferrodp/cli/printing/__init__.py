"""What commands print: exit codes, the shape of their JSON, tables in 80 columns."""
