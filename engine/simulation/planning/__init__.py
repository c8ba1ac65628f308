"""The planner: which TP × EP layouts of a model fit a cluster, and what they would do."""
