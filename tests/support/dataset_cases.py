"""A small data set for all tests of it: five videos in units of two, so that the last unit is not full."""

COUNT, UNIT, SIZES = 5, 2, (32, 64)
