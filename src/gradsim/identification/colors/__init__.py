"""Colors inside of outlines as an observation: textures that are known or unknown, exposure and light."""
