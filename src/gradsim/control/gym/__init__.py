"""Environments of gymnasium over many worlds."""
