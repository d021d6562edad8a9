"""Frames that follow recordings, and rollouts of rigid bodies with them."""
