"""What happened: the records that every cycle leaves, and how they are kept and read."""
