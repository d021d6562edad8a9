"""An arm of a robot from its video: masses, damping and the spring of its elbow; then a swing with other numbers.

The torque of the shoulder's motor is what is known: without a known force a film shows ratios only. The video is made
here, by steps four times as fine as the scene's, which the fit takes.

    python examples/arm.py
"""

import torch

import gradsim as gs

TRUTH = {
    "lower.mass": 1.1,
    "hand.mass": 0.25,
    "lower.scale": 1.08,
    "joints.elbow.stiffness": 2.2,
    "joints.elbow.damping": 0.035,
}
UNKNOWNS = [
    "lower.mass:0.3:2",
    "hand.mass:0.1:1",
    "lower.scale:0.8:1.25",
    "joints.elbow.stiffness:0.5:5",
    "joints.elbow.damping:0.01:0.1",
]


def main(starts: int = 2) -> gs.Fit:
    scene = gs.Scene.library("arm")
    values = {name: torch.tensor([value], dtype=torch.float64) for name, value in TRUTH.items()}
    silhouettes = gs.Silhouettes.of(scene)
    with torch.no_grad():
        fine = gs.Model(scene, substeps=32).rollout(values)
        masks = silhouettes.union(fine.surface, fine.values)[0]
    seen = gs.Masks(masks, 1 / 255, silhouettes)
    fit = gs.identify(scene, UNKNOWNS, observation=seen, starts=starts)
    print(fit.table, *(f"truth  {name}  {value:g}" for name, value in TRUTH.items()), sep="\n")
    model = gs.Model(scene)
    pushed = {"joints.shoulder.torque": torch.full((1, 30, 1), -3.0, dtype=torch.float64)}  # for each frame interval
    elbow = model.rollout({**values, **pushed}).joint("elbow")["angle"]
    print(f"with the motor the other way the elbow bends to {elbow.abs().max():.2f} rad")
    return fit


if __name__ == "__main__":
    main()
