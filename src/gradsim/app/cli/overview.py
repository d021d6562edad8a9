"""The page of `gradsim --help`, and an example of each command. Imports nothing, so that it answers at once."""

GROUPS = {
    "Begin": {
        "demo": ("mass, stiffness and friction of a bouncing cube, in a minute", "gradsim demo"),
        "scenes": ("list the scenes of the library, or print one", "gradsim scenes cube > my.yaml"),
        "examples": ("list the examples, or copy them", "gradsim examples --out examples"),
        "doctor": ("versions, extras and capabilities of this machine", "gradsim doctor"),
    },
    "Scenes and cameras": {
        "new": ("a first scene file for a clip", "gradsim new clip.mp4 --size 0.07 --out ball.yaml"),
        "camera": ("focal length or distance from a known length, or from outlines",
                   "gradsim camera ball.yaml --length 0.3 --points 212,340,401,338 --out measured.yaml"),
        "capture": ("lens and pose from a board, markers, a sheet, the body or the ground", "gradsim capture board.mp4 --target chessboard:10x7:25mm"),
        "track": ("points of a video by their texture", "gradsim track clip.mp4 --scene ball.yaml"),
        "import": ("a scene from MJCF, URDF or USD", "gradsim import robot.urdf --out robot.yaml"),
        "export": ("a scene or fit as MJCF, URDF or USD", "gradsim export runs/fit --to mjcf"),
    },
    "Parameters from video": {
        "fit": ("unknown parameters, with error bars and a verdict",
                "gradsim fit cube --video clip.webm --unknown cube.mass:2:12 ground.friction:0.2:1"),
        "compare": ("several models of a video, ranked", "gradsim compare cube --video clip.webm --unknown cube.mass:2:12 --without friction"),
        "plan": ("what to film next", "gradsim plan runs/fit --want ground.friction:5% --choose body.velocity.x=0:3"),
        "explain": ("which gradients can be trusted, and why", "gradsim explain runs/fit --unknown cube.mass"),
        "landscape": ("the cost along one or two unknowns", "gradsim landscape runs/fit --unknown cube.mass"),
    },
    "Simulation and control": {
        "simulate": ("move a scene through time", "gradsim simulate cube"),
        "render": ("videos, images and sheets of a scene or run", "gradsim render cube --strip 6"),
        "view": ("a trajectory in 3-D in the browser", "gradsim view runs/fit"),
        "control": ("a controller that moves a body to a goal image", "gradsim control walker --quick"),
    },
    "Research": {
        "dataset": ("generate, check and export data sets of videos", "gradsim dataset generate rigid --n 100 --out data"),
        "reproduce": ("experiments of the paper and ours, with their goals", "gradsim reproduce table1 --quick"),
    },
}  # fmt: skip
EXAMPLES = {name: example for commands in GROUPS.values() for name, (_, example) in commands.items()}


def overview() -> str:
    """All commands by what they are for."""
    lines = [
        "usage: gradsim COMMAND [OPTIONS]",
        "",
        "Physical parameters from video: differentiable physics and rendering, with error bars.",
    ]
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {name:<10} {words}" for name, (words, _) in commands.items())]
    return "\n".join(
        [
            *lines,
            "",
            "gradsim COMMAND --help    the options of a command, and an example",
            "gradsim --version         the version",
            "",
            "Exit codes: 0 done, 1 failed, 2 bad input, 3 the verdict is not ok or a goal is missed, 130 stopped.",
        ]
    )
