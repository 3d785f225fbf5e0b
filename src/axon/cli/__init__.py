"""The `axon` command; each subject is a module of its own."""
