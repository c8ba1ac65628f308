"""The control plane as one ASGI application."""
