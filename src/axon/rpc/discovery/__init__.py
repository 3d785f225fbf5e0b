"""Finding workers on the local network, and asking them who they are."""
