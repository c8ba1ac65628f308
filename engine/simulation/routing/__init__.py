"""Simulated routing: who is chosen how often, what overflows, and counts drawn from it."""
