"""A run written down: what a command line or a TOML file says, made into a world and a run.

settings    the recipe, as a value and as TOML
tables      names to policies
worlds      the recipe's world
keeping     records, configuration, checkpoint and model in a folder, and how they are taken up
runner      the recipe done
"""
