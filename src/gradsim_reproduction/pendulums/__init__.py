"""The paper's pendulum estimation tasks."""
