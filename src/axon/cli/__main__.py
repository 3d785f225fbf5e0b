"""`python -m axon.cli`, where the `axon` command is not on the path."""

from axon.cli.main import main

main()
