"""Several tasks at once on one fleet: plans, money, a queue that outlives its process."""
