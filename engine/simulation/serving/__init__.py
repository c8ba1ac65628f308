"""Simulated serving: arrivals, the queue and its steps, and how long a step takes."""
