"""Commands that follow things through a video: points, and the pose of the camera."""
