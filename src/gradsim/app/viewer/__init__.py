"""The live viewer of scenes and fits."""
