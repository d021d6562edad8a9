"""Findings of `explain_gradients`: verdict, cause and advice for the derivative by one unknown.

non-finite   the trajectory or its derivative diverges
zero         nothing in these frames depends on the unknown, or the loss does not depend on what changes
exploding    a change of 1 % moves the body by more than its size
kinked       tangent and wide secant differ by more than a factor of 2: the slope of one tooth, not of the trend
"""

from dataclasses import dataclass

import torch

from gradsim.identification.gradients.secant_audit import Audit
from gradsim.identification.gradients.trace import ContactInterval, Record
from gradsim.identification.sensitivity.directions import Direction

EXPLODING_SENSITIVITY = 100.0  # body sizes per step of one: 1 % is a body
ZERO_SENSITIVITY = 1e-12  # body sizes per step of one: rounding
FACTOR = 2.0  # ratio of tangent and secant above which they disagree
TREND = 0.01  # half width of the secant that defines the trend
PROBE = 1e-3  # half width of the secant that locates where tangent and trend separate
MIN_CONTACT_GROWTH = 1.5  # growth over a contact below which it is not reported
CHATTER_CONTACTS = 6  # number of contacts before an explosion above which it is called chatter


@dataclass(frozen=True)
class Finding:
    """The derivative by one unknown.

    Args:
        name: The unknown.
        verdict: "ok", "zero", "exploding", "kinked" or "non-finite".
        reason: Cause, as text; "" for ok.
        advice: Recommended action, as text.
        sensitivity: Displacement of the last frame per unit step [body sizes]; a unit step multiplies a positive
            quantity by e and adds its natural scale to any other.
        effect: Size of a hundredth of a step, as text.
        gradient: Derivative of the loss per unit step; of a fit, the norm of the column of J in units of the noise.
        frame: Frame of the cause.
        step: Step of the cause.
        body: Body of the cause.
        force: Force of the cause, as text.
        growth: Growth factor of the sensitivity at the cause.
        holds: Largest change (in unit steps) for which the tangent is valid; None without secants.
        trend: Size of the tangent over that of the secant across 1 %; None without secants.
    """

    name: str
    verdict: str
    reason: str
    advice: str
    sensitivity: float
    effect: str
    gradient: float | None = None
    frame: int | None = None
    step: int | None = None
    body: str | None = None
    force: str | None = None
    growth: float | None = None
    holds: float | None = None
    trend: float | None = None


def judge(record: Record, k: int, audited: Audit | None, gradient: float | None, unseen: str | None) -> Finding:
    """The verdict on unknown k.

    Args:
        record: Record of the trajectory.
        k: Index of the unknown.
        audited: Secants of the same unknowns.
        gradient: Derivative of the loss; None without a loss.
        unseen: Reason why the loss does not depend on what moves, if known.
    """
    direction = record.directions[k]
    rows = record.seen[k].amax(0)
    base = {"sensitivity": rows[-1].item(), "effect": direction.effect(), "gradient": gradient}
    if audited is not None:
        tangent, trend = audited.tangent[k].item(), audited.trend(TREND)[k]
        base |= {"holds": audited.holds[k], "trend": tangent / trend if trend > 0 else None}
    broken = record.not_finite(None) or record.not_finite(k)
    if broken is not None:
        return Finding(direction.name, "non-finite", **_not_finite(record, k, *broken), **base)
    if rows.max() < ZERO_SENSITIVITY and not gradient:
        reason, advice = _zero(record, direction)
        return Finding(direction.name, "zero", reason, advice, **base)
    if gradient is not None and not torch.isfinite(torch.tensor(gradient)):
        reason = unseen or "the motion's derivative is finite, that of the loss is not"
        advice = "mend the loss: a root or norm of 0, a division by 0 or an overflow does this."
        return Finding(direction.name, "non-finite", reason, advice, **base)
    if gradient == 0:
        reason = unseen or "it changes the motion, but nothing that the loss sees"
        return Finding(direction.name, "zero", reason, "let the loss see more: other frames, or another view.", **base)
    if rows.max() > EXPLODING_SENSITIVITY:
        return Finding(direction.name, "exploding", **_exploding(record, k, audited), **base)
    tooth = base.get("trend") is not None and not 1 / FACTOR < base["trend"] < FACTOR
    if tooth and base["holds"] < TREND:
        return Finding(direction.name, "kinked", **_kinked(record, k, base), **base)
    return Finding(direction.name, "ok", "", "", **base)


def _not_finite(record: Record, k: int, step: int, quantity: str, body: str) -> dict:
    """The first quantity that is not finite, and the force that made it."""
    before = max(step - 1, 0)
    whose = "" if record.not_finite(None) else "the derivative of "
    force = record.forces_text(body, before)
    advice = (
        f"use more than {record.model.substeps} substeps, or look for extreme values of stiffness, damping or mass."
        if not whose
        else "the motion is finite there: shorten the clip, or move the start by a little."
    )
    return {
        "reason": f"first at step {step} (frame {record.frame(step)}) in {whose}`{quantity}` of {body}, by {force}",
        "advice": advice,
        "frame": record.frame(step),
        "step": step,
        "body": body,
        "force": force,
    }


def _zero(record: Record, direction: Direction) -> tuple[str, str]:
    """Why nothing depends on an unknown."""
    kind, owner, frames = direction.kind, direction.owner, record.frames
    if owner == "camera":
        return "it moves nothing; only pictures depend on it", "take a loss on pictures, or leave it out."
    if owner in record.model.scene.surfaces:
        return _zero_ground(record, owner, kind)
    system = next((s for s in record.model.systems if s.name == owner), None)
    if owner == "contacts" and (met := _met(record, direction)):
        return _zero_meeting(record, *met)
    if owner in record.model.scene.recorded and kind in ("mass", "density", "inertia"):
        return f"{owner} follows its `motion`, whatever its mass", "leave it out, or remove the `motion`."
    touching = record.meets(owner) or (owner in record.touches and bool(record.touches[owner].any.any()))
    held = any(owner in joint.between for joint in record.model.scene.joints.values())
    if kind in ("mass", "density", "scale") and not touching and not held:
        pushes = system.pushes if system else ()
        if not pushes:
            return (
                f"{owner} falls freely in these {frames} frames, and every mass falls alike",
                "add a push with a known impulse.",
            )
        if all((p.window or (p.at,))[0] >= record.time(record.steps - 1) for p in pushes):
            return f"{owner} falls freely, its pushes act after frame {frames - 1}", "use more frames."
    if kind in ("impulse", "force") and system is not None and system.pushes:
        push = system.pushes[int(direction.places[0][0].split(".")[-2])]
        begin = (push.window or (push.at,))[0]
        if begin >= record.time(record.steps - 1):
            return f"the push begins at {begin:g} s, after the last frame", "use more frames."
    return f"nothing that moves in these {frames} frames depends on it", "leave it at a known value."


def _met(record: Record, direction: Direction) -> tuple[str, list[str], bool] | None:
    """The contact between rigid bodies whose number is unknown, their names, and whether any two touch."""
    name = direction.places[0][0].split(".")[1]
    mine = [(names, met) for (contact, *names), met in record.meetings.items() if contact == name]
    bodies = dict.fromkeys(body for names, _ in mine for body in names)
    return (name, list(bodies), any(bool(met.any()) for _, met in mine)) if mine else None


def _zero_meeting(record: Record, name: str, bodies: list[str], touching: bool) -> tuple[str, str]:
    """Why nothing depends on a number of a contact between rigid bodies."""
    if touching:
        return f"no contact of `contacts.{name}` depends on it", "leave it at a known value."
    listed = f"{', '.join(bodies[:-1])} and {bodies[-1]}"
    return (
        f"{listed} never touch one another in these {record.frames} frames",
        "use more frames, or a start where they are nearer.",
    )


def _zero_ground(record: Record, ground: str, kind: str) -> tuple[str, str]:
    frames = record.frames
    mine = [(t, t.grounds.index(ground)) for t in record.touches.values() if ground in t.grounds]
    inside = any(bool(t.inside[:, g].any()) for t, g in mine)
    if not inside:
        return f"nothing touches `{ground}` in these {frames} frames", "use more frames, or a start nearer to it."
    sliding = any(bool(t.sliding[:, g].any()) for t, g in mine)
    if kind == "friction" and not sliding:
        return (
            f"nothing slides on `{ground}`: friction stays below its clamp μ f_n, where it is viscous (k_f u)",
            "push harder, start faster, or leave it out; friction_stiffness acts instead.",
        )
    if kind == "friction_stiffness" and not any(
        bool((t.inside[:, g] & t.pressing[:, g] & ~t.sliding[:, g]).any()) for t, g in mine
    ):
        return (
            f"everything slides on `{ground}`: friction is at its clamp μ f_n throughout",
            "let it come to rest, or leave it out; friction acts instead.",
        )
    if kind in ("damping", "dissipation") and not any(bool(t.pressing[:, g].any()) for t, g in mine):
        return f"the normal force of `{ground}` is clamped at 0 throughout", "use a smaller step."
    return f"no contact with `{ground}` depends on it", "leave it at a known value."


def _exploding(record: Record, k: int, audited: Audit | None) -> dict:
    """The contact over which the sensitivity grows most, on the way to its limit."""
    total = record.seen[k].amax(0)
    crossed = int((total > EXPLODING_SENSITIVITY).nonzero()[0])
    effect = record.directions[k].effect()
    most = (
        f"by the tangent, {effect} of it moves the body by up to {0.01 * total.max().item() * record.scale.size:.2g} m"
    )
    reached = [c for c in record.every_contact() if c.first <= crossed]
    if not reached:
        frame = record.frame(crossed)
        text = f"from frame {frame} (step {crossed}) without any contact; {most}"
        return {"reason": text, "advice": "a shorter clip.", "frame": frame, "step": crossed}
    contact = max(reached, key=lambda c: record.factor(k, c))
    place, factor = _place(record, k, contact), record.factor(k, contact)
    grows = f"sensitivity grows ×{factor:.2g} there" if factor > MIN_CONTACT_GROWTH else "sensitivity arises there"
    text = f"from frame {place['frame']} (step {place['step']}): {place['force']}; {grows}"
    if len(reached) >= CHATTER_CONTACTS:
        text += f", and over {len(reached)} contacts in all (chatter)"
    text += f"; {most}"
    if audited is not None and (trend := audited.trend(TREND)[k]) * FACTOR < audited.tangent[k]:
        text += f". The motion itself moves ×{audited.tangent[k] / trend:.2g} less: secant over ± 1 %"
    return {"reason": text, "advice": _advice(record, contact), "growth": factor, **place}


def _kinked(record: Record, k: int, base: dict) -> dict:
    """The first contact after which tangent and secant part for good."""
    apart = record.secant(k, PROBE) > 0.5
    contacts = record.every_contact()
    # during a contact they part for a moment, as the instant of touch moves
    parted = [c for c in contacts if bool(apart[min(c.last + 1, record.steps - 1)])]
    share = base["trend"]
    size = f"{share:.2g} times the trend" if share > 1 else f"{1 / share:.2g} times smaller than the trend"
    text = f"the tangent is {size} (secant over 1 %)"
    if base["holds"]:
        text += f" and holds only up to changes of {base['holds']:.1g}"
    else:
        text += " at every width"
    if not parted:
        return {"reason": text, "advice": "more substeps, or multiple shooting."}
    place = _place(record, k, parted[0])
    text += f"; they part at frame {place['frame']} (step {place['step']}): {place['force']}"
    return {"reason": text, "advice": _advice(record, parted[0]), **place}


def _place(record: Record, k: int, contact: ContactInterval) -> dict:
    if contact.other:
        force = f"contact of {contact.body} with {contact.other}"
    else:
        ground, point, part = record.force(k, contact)
        force = f"contact of {contact.body} {record.point(contact.body, point)} with `{ground}` ({part})"
    return {"frame": record.frame(contact.first), "step": contact.first, "body": contact.body, "force": force}


def _advice(record: Record, contact: ContactInterval) -> str:
    system = next(s for s in record.model.systems if s.name == contact.body)
    group = next(g for g in record.model.groups if system in g.systems)
    options, limit = [], (group if contact.other else system).stable_step(record.values)
    if record.model.dt > limit:
        fps = record.model.scene.timing.fps
        options.append(f"{int(1 / (fps * limit)) + 1} substeps or more (the step is unstable for these values)")
    elif not contact.other and system.contact_law.startswith("paper"):
        options.append("law: continuous (the paper's force jumps at touch, so its tangents do not converge)")
    else:
        options.append(f"more than {record.model.substeps} substeps")
    options.append(f"a clip that ends before frame {record.frame(contact.first) + 1}")
    return ", or ".join([*options, "multiple shooting"]) + "."
