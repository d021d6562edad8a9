"""Camera calibration against truth that is not ours: images of boards by OpenCV's lens."""
