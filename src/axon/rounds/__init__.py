"""One cycle, then many: dispatch, collect, aggregate, and the checkpoint that loses nothing."""
