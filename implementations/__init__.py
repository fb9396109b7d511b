"""What is measured: one folder per operation, one file per family of implementations."""
