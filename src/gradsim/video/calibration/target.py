"""Targets in view, as text: what they are, their size, and their place in the world.

    chessboard:COLUMNSxROWS:SQUARE                        squares, not inner corners: chessboard:10x7:25mm
    charuco:COLUMNSxROWS:SQUARE:MARKER:DICTIONARY         charuco:7x5:40mm:30mm:4x4_50
    aruco:DICTIONARY:ID:SIZE,  apriltag:FAMILY:ID:SIZE    size of the black square: aruco:4x4_50:7:12cm
    a4, letter, sheet:WIDTHxHEIGHT                        a sheet of paper: sheet:30cmx20cm
    length:METERS:U1,V1,U2,V2                             two points of the image [px] and their distance: length:1m:212,340,401,338
    ground                                                a textured plane, of a camera that moves; its place is any point of it
    body                                                  the scene's body itself, of known shape and size, where the scene has it

A place @X,Y,Z[,RX,RY,RZ] may follow: the center of the target [m], and the turn [deg] about the axes x, then y, then z of
the world. A target that is not turned lies flat with its face up (+z), its right side (as printed) along +x and its top
along +y; turned by 90 degrees about x, it is upright and faces -y.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial.transform import Rotation

from gradsim.errors import InputError
from gradsim.scene import units

SHEETS = {"a4": (0.297, 0.210), "letter": (0.2794, 0.2159)}  # [m], lying on the long side
KINDS = "chessboard:10x7:25mm, charuco:7x5:40mm:30mm:4x4_50, aruco:4x4_50:7:12cm, apriltag:36h11:0:12cm, a4, letter, sheet:30cmx20cm, length:1m:212,340,401,338, ground, body"
MIN_SQUARES = 3  # squares of a board on a side


@dataclass(frozen=True)
class Target:
    """A target of known size.

    Attributes:
        kind: "chessboard", "charuco", "marker", "sheet", "length", "ground" or "body".
        text: As the user wrote it.
        columns, rows: Squares of a board.
        square: Side of a square or of a marker, or a known length [m].
        marker: Side of a marker on a board [m].
        dictionary: Name of the dictionary of markers in OpenCV, such as "DICT_4X4_50".
        identifier: Number of the marker.
        width, height: Of a sheet [m].
        ends: Of a length in the image, ((u, v), (u, v)) [px].
        position: Center in the world [m].
        turn: Rotation vector target → world [rad].
        is_placed: True of a ground whose place is stated.
    """

    kind: str
    text: str
    columns: int = 0
    rows: int = 0
    square: float = 0.0
    marker: float = 0.0
    dictionary: str = ""
    identifier: int = 0
    width: float = 0.0
    height: float = 0.0
    ends: tuple[tuple[float, float], ...] = ()
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    turn: tuple[float, float, float] = field(default=(0.0, 0.0, 0.0))
    is_placed: bool = False

    @property
    def is_board(self) -> bool:
        """True if it has many corners in each view."""
        return self.kind in ("chessboard", "charuco")

    def in_world(self, points: np.ndarray) -> np.ndarray:
        """World coordinates (n, 3) of points (n, 2 or 3) in the target's axes: x right, y up as printed, z out of it."""
        flat = np.zeros((len(points), 3))
        flat[:, : points.shape[1]] = points
        return Rotation.from_rotvec(self.turn).apply(flat) + self.position


def parse_target(text: str) -> Target:
    """Read a target.

    Raises:
        InputError: If the text is none of the kinds above.
    """
    body, at, place = text.strip().partition("@")
    kind, *parts = body.split(":")
    kind = kind.lower()
    position, turn = _place(place, text) if at else ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    common = {"text": text, "position": position, "turn": turn}
    expected = {
        "chessboard": 2,
        "charuco": 4,
        "aruco": 3,
        "apriltag": 3,
        "a4": 0,
        "letter": 0,
        "sheet": 1,
        "length": 2,
        "ground": 0,
        "body": 0,
    }
    if kind not in expected or len(parts) != expected[kind]:
        raise InputError(f"--target is {text!r}; expected one of {KINDS}, perhaps followed by @X,Y,Z,RX,RY,RZ.")
    if kind == "body" and at:
        raise InputError(f"--target {text}: the place of the body is that of the scene; leave @… out.")
    if kind in ("ground", "body"):
        return Target(kind, is_placed=bool(at), **common)
    if kind in ("a4", "letter"):
        width, height = SHEETS[kind]
        return Target("sheet", width=width, height=height, **common)
    if kind == "sheet":
        sides = parts[0].lower().split("x")
        if len(sides) != 2:
            raise InputError(f"--target {text}: expected sheet:WIDTHxHEIGHT, such as sheet:30cmx20cm.")
        return Target("sheet", width=_length(sides[0], text), height=_length(sides[1], text), **common)
    if kind == "length":
        u1, v1, u2, v2 = _pixels(parts[1], text)
        return Target("length", square=_length(parts[0], text), ends=((u1, v1), (u2, v2)), **common)
    if kind in ("aruco", "apriltag"):
        if not parts[1].isdigit():
            raise InputError(f"--target {text}: the number of the marker is {parts[1]!r}; expected a whole number.")
        dictionary = _dictionary(parts[0] if kind == "aruco" else f"apriltag_{parts[0]}", text)
        size = _length(parts[2], text)
        return Target("marker", square=size, dictionary=dictionary, identifier=int(parts[1]), **common)
    columns, rows = _squares(parts[0], text)
    square = _length(parts[1], text)
    if kind == "chessboard":
        return Target("chessboard", columns=columns, rows=rows, square=square, **common)
    marker = _length(parts[2], text)
    if not marker < square:
        raise InputError(f"--target {text}: its markers are {marker:g} m, not smaller than its squares, {square:g} m.")
    board = {"columns": columns, "rows": rows, "square": square, "marker": marker}
    return Target("charuco", dictionary=_dictionary(parts[3], text), **board, **common)


def check_targets(targets: Sequence[Target]) -> None:
    """Require one board or one sheet, or any number of different markers, and at most one ground.

    Raises:
        InputError: If they cannot be in one image.
    """
    if not targets:
        raise InputError(f"no target; give --target, one of {KINDS}.")
    grounds = [target for target in targets if target.kind == "ground"]
    if len(grounds) > 1:
        raise InputError("two targets are a ground; give one.")
    targets = [target for target in targets if target.kind != "ground"]
    if len(targets) > 1 and any(target.kind != "marker" for target in targets):
        raise InputError(
            "several targets: only markers can be combined; give one board or one sheet, or markers alone."
        )
    numbers = [(target.dictionary, target.identifier) for target in targets]
    if len(set(numbers)) < len(numbers) and len(targets) > 1:
        raise InputError("two targets are the same marker; give each marker once.")


def _squares(text: str, whole: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)[xX×](\d+)", text)
    if not match or min(map(int, match.groups())) < MIN_SQUARES:
        raise InputError(
            f"--target {whole}: got {text!r} squares; expected COLUMNSxROWS, {MIN_SQUARES} or more of each."
        )
    return int(match.group(1)), int(match.group(2))


def _length(text: str, whole: str) -> float:
    try:
        value = units.parse(text, "m")
    except InputError as error:
        raise InputError(f"--target {whole}: {error}") from None
    if not 0 < value < 1e3:
        raise InputError(f"--target {whole}: got a length of {text!r}; expected meters above 0, or text such as 25mm.")
    return value


def _pixels(text: str, whole: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != 4:
        raise InputError(f"--target {whole}: its ends are {text!r}; expected U1,V1,U2,V2 in px.")
    return numbers


def _place(text: str, whole: str) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (3, 6):
        raise InputError(
            f"--target {whole}: its place is {text!r}; expected @X,Y,Z in m, or @X,Y,Z,RX,RY,RZ in m and deg."
        )
    turn = Rotation.from_euler("xyz", numbers[3:] or [0, 0, 0], degrees=True).as_rotvec()
    return (numbers[0], numbers[1], numbers[2]), (float(turn[0]), float(turn[1]), float(turn[2]))


def _dictionary(text: str, whole: str) -> str:
    """Name in OpenCV; that it exists is checked where OpenCV is loaded."""
    name = text.strip().upper().removeprefix("DICT_")
    if not re.fullmatch(r"[A-Z0-9_]+", name):
        raise InputError(f"--target {whole}: got the dictionary {text!r}; expected a name such as 4x4_50 or 36h11.")
    return f"DICT_{name.replace('H', 'h') if name.startswith('APRILTAG') else name}"
