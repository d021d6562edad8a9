"""Soft bodies as flexes of MuJoCo."""

import xml.etree.ElementTree as xml


def add_soft_bodies(root: xml.Element, world: xml.Element, draft) -> None:
    """Add all soft bodies of a twin."""
    for name, body in draft.twin.soft.items():
        draft.notes.append(f"`{name}`: a soft body of kind {body.kind}; left out.")
