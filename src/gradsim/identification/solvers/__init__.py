"""Least squares: Levenberg-Marquardt, multiple starts, multiple shooting, sampling."""
