"""Settings of all tests."""

import warp as wp

wp.config.log_level = wp.LOG_WARNING  # otherwise one line for each module that Warp loads
