"""The cost model: pure functions from shapes, topologies and loads to seconds and bytes."""
