"""Adapters for agent frameworks. Each needs its framework, and nothing else imports them."""
