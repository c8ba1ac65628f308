"""Composes the simulation with the control plane: windows, snapshots, fleets."""
