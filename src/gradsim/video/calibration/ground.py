"""Poses of a camera that moves over a textured plane: all poses and all points of the plane at once (bundle adjustment).

    minimize  Σ_(k,j) ρ(|u_kj - π(R_k X_j + t_k)|² / (s sd_kj)²) + Σ_k |(ω_k, t_k) - reference_k|² in units of its covariance

over a pose for each frame k and two coordinates in the plane for each point j, with a known lens π. A frame whose pose is known (the
camera of the scene, or a target in view) puts all others into the world. Points that do not stay at one place of the plane (a body that
moves, a wall) do not count: first by RANSAC from frame to frame, in the end by their residuals. Normal equations are reduced to the
poses by the Schur complement, since points are independent of each other given the poses (Triggs et al. 2000); the inverse of what
remains is the covariance of the poses, and s is estimated from the residuals.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gradsim.errors import InputError
from gradsim.runtime.optional import require_extra
from gradsim.video.calibration.ground_tracks import GroundTracks
from gradsim.video.calibration.lens import Lens, project, rotation, undistort
from gradsim.video.calibration.shared_errors import estimate_shared

MIN_POINTS = 10  # points of the plane in a frame with a pose
MIN_POINT_FRAMES = 4  # frames of a point that counts
RANSAC_DISTANCE = 2.0  # [px] from the pose of a sample
MAX_DISTANCE = 8.0  # times the distance of the camera from the plane: points farther off are near the horizon
SELECTION_ROUNDS, GAUSS_NEWTON_STEPS = 6, 4  # of choosing what counts; Gauss–Newton steps in each
MAX_RESIDUAL_Z = 4.0  # residual of one observation in standard deviations
MAX_POINT_RATIO = 2.5  # RMS of a point's residuals over the median of all, above which it is not of the plane
SOFT_RESIDUAL_Z = 2.0  # from which on residuals count less, before what counts is chosen
MAX_FRAMES = 600  # frames of one fit, whose normal equations are (6 frames)²
MIN_FREEDOM = 20  # observations more than unknowns
SHARED_FRAMES = 16  # frames whose residuals tell what neighboring observations share
MAX_CORRELATION = 0.98  # of consecutive poses
LEAST_NOISE = 0.03  # [px] of an observation, as of corners of a target


@dataclass(frozen=True, eq=False)
class Plane:
    """A plane in the world.

    Attributes:
        origin: A point of it (3,) [m].
        axes: Two unit vectors in it, as columns (3, 2).
        normal: (3,).
    """

    origin: np.ndarray
    axes: np.ndarray
    normal: np.ndarray

    @classmethod
    def of(cls, origin: np.ndarray, normal: np.ndarray) -> "Plane":
        """The plane through a point (3,) with a normal (3,) of any length."""
        normal = np.asarray(normal, float) / np.linalg.norm(normal)
        return cls(np.asarray(origin, float), np.linalg.svd(normal[None])[2][1:].T, normal)

    def points(self, coordinates: np.ndarray) -> np.ndarray:
        """World coordinates (n, 3) of coordinates in the plane (n, 2)."""
        return self.origin + coordinates @ self.axes.T

    def hit(self, R: np.ndarray, t: np.ndarray, rays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates in the plane (n, 2) that rays (n, 2) = (X/Z, Y/Z) of a camera meet, and (n,) whether they do, not too far off."""
        eye = -R.T @ t
        directions = np.column_stack([rays, np.ones(len(rays))]) @ R
        slope = directions @ self.normal
        height = (eye - self.origin) @ self.normal
        with np.errstate(divide="ignore", invalid="ignore"):
            depth = -height / slope
        is_near = (
            np.isfinite(depth) & (depth > 0) & (depth * np.linalg.norm(directions, axis=1) < MAX_DISTANCE * abs(height))
        )
        at = eye + np.where(is_near, depth, 0.0)[:, None] * directions
        return (at - self.origin) @ self.axes, is_near


@dataclass(frozen=True, eq=False)
class Reference:
    """A pose that is known from elsewhere.

    Attributes:
        R: World → camera (3, 3).
        t: (3,) [m].
        covariance: Of ω and t (6, 6), R = exp(ω) R; None: exact.
    """

    R: np.ndarray
    t: np.ndarray
    covariance: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class GroundPoses:
    """Poses over a plane.

    Attributes:
        frames: (n,) with a pose.
        R, t: Poses (n, 3, 3), (n, 3).
        covariance: (n, 6, 6) of ω and t.
        noise: s, the noise of observations over what their matches state.
        rms: RMS distance of observations that count from the model, of each frame [px].
        points: Number of points of each frame that count.
        point_count: Points that count.
        left_out: Share of the points in several frames that do not.
        correlation: Of the errors of consecutive poses, which is taken to be that of the residuals of a point.
    """

    frames: np.ndarray
    R: np.ndarray
    t: np.ndarray
    covariance: np.ndarray
    noise: float
    rms: np.ndarray
    points: np.ndarray
    point_count: int
    left_out: float
    correlation: float


def ground_poses(tracks: GroundTracks, lens: Lens, plane: Plane, references: Mapping[int, Reference]) -> GroundPoses:
    """Estimate a pose for each frame.

    Args:
        tracks: Observations.
        lens: The lens, without unknowns.
        plane: Where the ground is.
        references: Poses that are known, by frame: one or more.

    Raises:
        InputError: If no frame but the known ones has enough points of the plane.
    """
    numbers = lens.numbers(lens.start)
    counts = np.bincount(tracks.point)
    tracks = tracks.select(counts[tracks.point] >= MIN_POINT_FRAMES)
    rays = undistort(lens.model, numbers, tracks.pixels)
    poses, places = _chain(tracks, rays, plane, references, float(numbers[0]))
    frames = np.array(sorted(poses))
    if len(frames) < 2:
        raise InputError(
            f"fewer than {MIN_POINTS} points of the ground can be followed from a frame of known pose to the next: is the ground textured, "
            "sharp and in view, and is the pose of the scene's camera that of the first frame?"
        )
    used = np.isin(tracks.frame, frames) & np.isfinite(places[tracks.point, 0])
    problem = _Bundle.of(tracks.select(used), lens, plane, frames, poses, places, references)
    return problem.solve(int(np.sum(np.bincount(tracks.point) > 0)))


def _chain(
    tracks: GroundTracks, rays: np.ndarray, plane: Plane, references: Mapping[int, Reference], focal: float
) -> tuple[dict[int, tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """Initial poses from frame to frame, and coordinates of points in the plane (points, 2), NaN where there are none."""
    places = np.full((tracks.point.max() + 1, 2), np.nan)
    poses = {k: (ref.R, ref.t) for k, ref in references.items()}
    rows = {int(k): np.flatnonzero(tracks.frame == k) for k in np.unique(tracks.frame)}

    def add(k: int) -> None:
        """Places of points that are new in a frame with a pose."""
        at = rows.get(k, np.zeros(0, int))
        at = at[~np.isfinite(places[tracks.point[at], 0])]
        coordinates, hits = plane.hit(*poses[k], rays[at])
        places[tracks.point[at[hits]]] = coordinates[hits]

    for k in references:
        add(k)
    last = max(rows)
    for step in (1, -1):
        for k in range(min(references) if step > 0 else max(references), last + 1 if step > 0 else -1, step):
            if k in poses or k - step not in poses or k not in rows:
                continue
            at = rows[k]
            at = at[np.isfinite(places[tracks.point[at], 0])]
            pose = _resection(plane.points(places[tracks.point[at]]), rays[at], poses[k - step], focal)
            if pose is not None:
                poses[k] = pose
                add(k)
    return poses, places


def _resection(points: np.ndarray, rays: np.ndarray, before: tuple[np.ndarray, np.ndarray], focal: float):
    """Pose from points (n, 3) and rays (n, 2) by RANSAC; None where too few agree."""
    cv2 = require_extra("cv2", "gradsim capture --target ground", "capture")
    if len(points) < MIN_POINTS:
        return None
    middle = points.mean(0)
    turn, shift = cv2.Rodrigues(before[0])[0], before[1] + before[0] @ middle
    cv2.setRNGSeed(0)
    ok, turn, shift, inliers = cv2.solvePnPRansac(
        points - middle,
        rays[:, None],
        np.eye(3),
        None,
        turn,
        shift.reshape(3, 1).copy(),
        True,
        200,
        RANSAC_DISTANCE / focal,
    )
    if not ok or inliers is None or len(inliers) < MIN_POINTS:
        return None
    good = inliers.ravel()
    turn, shift = cv2.solvePnPRefineLM(points[good] - middle, rays[good][:, None], np.eye(3), None, turn, shift)
    R = cv2.Rodrigues(turn)[0]
    return R, shift.ravel() - R @ middle


@dataclass(eq=False)
class _Bundle:
    """Observations and unknowns; `frame` and `point` count from 0 within the problem."""

    tracks: GroundTracks
    lens: Lens
    plane: Plane
    frames: np.ndarray
    R: np.ndarray
    t: np.ndarray
    places: np.ndarray
    references: dict[int, Reference]
    noise: float = 1.0

    @classmethod
    def of(cls, tracks, lens, plane, frames, poses, places, references) -> "_Bundle":
        numbers, point = np.unique(tracks.point, return_inverse=True)
        tracks = replace(tracks, frame=np.searchsorted(frames, tracks.frame), point=point)
        R, t = np.array([poses[k][0] for k in frames]), np.array([poses[k][1] for k in frames])
        known = {int(np.searchsorted(frames, k)): ref for k, ref in references.items()}
        return cls(tracks, lens, plane, frames, R, t, places[numbers], known)

    def predict(self, omega: np.ndarray, t: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Pixels (n, 2), with all arguments given for each observation."""
        world = self.plane.origin + places @ self.plane.axes.T
        camera = np.einsum("nij,nj->ni", rotation(omega) @ self.R[self.tracks.frame], world) + t
        return project(self.lens.model, self.lens.numbers(self.lens.start), np.eye(3), np.zeros(3), camera)

    def derivatives(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Residuals (n, 2), image - model, and derivatives of the model by pose (n, 2, 6) and place (n, 2, 2), by complex steps."""
        zero, t, places = (
            np.zeros((len(self.tracks.frame), 3)),
            self.t[self.tracks.frame],
            self.places[self.tracks.point],
        )
        step, J = 1e-20, np.empty((len(zero), 2, 8))
        for i in range(3):
            unit = 1j * step * (np.arange(3) == i)
            J[..., i] = np.imag(self.predict(zero + unit, t, places)) / step
            J[..., 3 + i] = np.imag(self.predict(zero, t + unit, places)) / step
        for i in range(2):
            J[..., 6 + i] = np.imag(self.predict(zero, t, places + 1j * step * (np.arange(2) == i))) / step
        return self.tracks.pixels - self.predict(zero, t, places), J[..., :6], J[..., 6:]

    def step(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """One Gauss–Newton step with weights (n,) [1/px²]; its length in the places of points [m], and the covariance of the poses."""
        r, Jp, Jx = self.derivatives()
        f, p, w = self.tracks.frame, self.tracks.point, weights
        F, P = len(self.frames), len(self.places)
        A, C, B = np.zeros((F, 6, 6)), np.zeros((P, 2, 2)), np.zeros((F, P, 6, 2))
        a, c = np.zeros((F, 6)), np.zeros((P, 2))
        np.add.at(A, f, np.einsum("n,nki,nkj->nij", w, Jp, Jp))
        np.add.at(C, p, np.einsum("n,nki,nkj->nij", w, Jx, Jx))
        np.add.at(B, (f, p), np.einsum("n,nki,nkj->nij", w, Jp, Jx))
        np.add.at(a, f, np.einsum("n,nki,nk->ni", w, Jp, r))
        np.add.at(c, p, np.einsum("n,nki,nk->ni", w, Jx, r))
        for k, reference in self.references.items():
            if reference.covariance is not None:
                precision = np.linalg.inv(reference.covariance)
                A[k] += precision
                a[k] += precision @ _difference(reference, self.R[k], self.t[k])
        C_inverse = np.linalg.inv(C)
        rows = B.transpose(0, 2, 1, 3).reshape(6 * F, P, 2)
        reduced = np.einsum("apk,pkl->apl", rows, C_inverse).reshape(6 * F, 2 * P)
        S = -reduced @ rows.reshape(6 * F, 2 * P).T
        for k in range(F):
            S[6 * k : 6 * k + 6, 6 * k : 6 * k + 6] += A[k]
        fixed = [k for k, reference in self.references.items() if reference.covariance is None]
        free = np.setdiff1d(np.arange(6 * F), [6 * k + i for k in fixed for i in range(6)])
        scale = 1 / np.sqrt(np.diag(S)[free])
        inverse = np.linalg.inv(S[np.ix_(free, free)] * np.outer(scale, scale)) * np.outer(scale, scale)
        covariance, x = np.zeros_like(S), np.zeros(6 * F)
        covariance[np.ix_(free, free)] = inverse
        x[free] = inverse @ (a.ravel() - reduced @ c.ravel())[free]
        shift = np.einsum("pkl,pl->pk", C_inverse, c - np.einsum("apk,a->pk", rows, x))
        pose = x.reshape(F, 6)
        self.R, self.t, self.places = rotation(pose[:, :3]) @ self.R, self.t + pose[:, 3:], self.places + shift
        return float(np.abs(shift).max()), covariance

    def solve(self, tracked: int) -> GroundPoses:
        """Choose what counts and minimize, in turns."""
        for turn in range(SELECTION_ROUNDS):
            for _ in range(GAUSS_NEWTON_STEPS):
                z = self.z()
                soft = (
                    np.minimum(1.0, SOFT_RESIDUAL_Z / np.maximum(z, 1e-12))
                    if turn < SELECTION_ROUNDS - 2
                    else np.ones_like(z)
                )
                self.step(soft / (self.noise * self.tracks.sd) ** 2)
            self.choose()
        for _ in range(GAUSS_NEWTON_STEPS):
            _, covariance = self.step(1 / (self.noise * self.tracks.sd) ** 2)
        blocks = self._blocks(covariance)
        r = self.derivatives()[0]
        counts = np.bincount(self.tracks.frame, minlength=len(self.frames))
        rms = np.sqrt(np.bincount(self.tracks.frame, (r**2).sum(1), len(self.frames)) / np.maximum(counts, 1))
        left_out = 1 - len(self.places) / max(tracked, 1)
        args = (self.frames, self.R, self.t, blocks, self.noise, rms, counts, len(self.places), left_out)
        return GroundPoses(*args, self._correlation(r))

    def _correlation(self, residuals: np.ndarray) -> float:
        """Correlation of a point's residuals (n, 2) in consecutive frames.

        Since each point's place is fitted, that of independent errors is -1/n over n frames, which is added.
        """
        order = np.lexsort((self.tracks.frame, self.tracks.point))
        point, frame = self.tracks.point[order], self.frames[self.tracks.frame[order]]
        r = residuals[order] / self.tracks.sd[order, None]
        pairs = np.flatnonzero((np.diff(point) == 0) & (np.diff(frame) == 1))
        counts = np.bincount(point)
        if not len(pairs):
            return 0.0
        value = (r[pairs] * r[pairs + 1]).mean() / (r**2).mean() + (1 / counts[point[pairs]]).mean()
        return float(np.clip(value, 0.0, MAX_CORRELATION))

    def _blocks(self, covariance: np.ndarray) -> np.ndarray:
        """Covariance (frames, 6, 6) of each pose, with errors that neighboring observations share.

        That of a frame with known places is H⁻¹ Jᵀ W C W J H⁻¹ with C from `estimate_shared`; what the places add, which is the rest of the
        covariance of independent errors, grows by as much as this one on average.
        """
        views = self._views()
        chosen = np.unique(np.linspace(0, len(views) - 1, SHARED_FRAMES).astype(int))
        size = 6 * len(chosen)
        parts, inverses, spreads = [], [], []
        for i, k in enumerate(chosen):
            r, J, V, pixels, _ = views[k]
            wide = np.zeros((len(r), size))
            wide[:, 6 * i : 6 * i + 6] = J
            parts.append((r, wide, V, pixels))
        shared = estimate_shared(parts, np.array([views[k][-1] for k in chosen]), np.zeros((size, size)))
        for _, J, V, pixels, s in views:
            root = J / (s**2 * np.diag(V))[:, None]
            inverse = np.linalg.inv(J.T @ root)
            C = s**2 * (V + shared.covariance(pixels)) / (1 + shared.variance)
            inverses.append(inverse)
            spreads.append(inverse @ root.T @ C @ root @ inverse)
        independent, spread = np.array(inverses), np.array(spreads)
        ratio = np.diagonal(spread, axis1=1, axis2=2) / np.diagonal(independent, axis1=1, axis2=2)
        factor = max(1.0, float(np.mean(ratio)))
        simple = np.array([covariance[6 * k : 6 * k + 6, 6 * k : 6 * k + 6] for k in range(len(self.frames))])
        blocks = spread + factor * (simple - independent)
        for k, reference in self.references.items():
            if reference.covariance is None:
                blocks[k] = 0
        return (blocks + np.swapaxes(blocks, 1, 2)) / 2

    def _views(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]]:
        """Residuals of each frame (2n,), derivatives by its pose (2n, 6), V (2n, 2n), pixels (n, 2), and the noise [px]."""
        r, Jp, _ = self.derivatives()
        views = []
        for k in range(len(self.frames)):
            at = self.tracks.frame == k
            variance = np.repeat(self.tracks.sd[at] ** 2, 2)
            s = self.noise * float(np.sqrt(variance.mean()))
            V = np.diag(variance / variance.mean())
            views.append((r[at].ravel(), Jp[at].reshape(-1, 6), V, self.tracks.pixels[at], s))
        return views

    def z(self) -> np.ndarray:
        """Distance of each observation from the model in standard deviations, 1 on average."""
        r, _, _ = self.derivatives()
        return np.sqrt((r**2).sum(1) / 2) / (self.noise * self.tracks.sd)

    def choose(self) -> None:
        """Estimate the noise, and leave out observations and points that are far off, and frames with few points.

        Raises:
            InputError: If too few remain.
        """
        z = self.z()
        freedom = 1 - (6 * len(self.frames) + 2 * len(self.places)) / (2 * len(z))
        median = (
            float(np.median(z)) / np.sqrt(np.log(2)) / np.sqrt(max(freedom, 0.1))
        )  # of a Rayleigh law with the mean square 1
        before, self.noise = self.noise, max(self.noise * median, LEAST_NOISE / float(np.median(self.tracks.sd)))
        z = z * before / self.noise
        count = np.bincount(self.tracks.point, minlength=len(self.places))
        mean = np.sqrt(np.bincount(self.tracks.point, z**2, len(self.places)) / np.maximum(count, 1))
        is_plane = mean < MAX_POINT_RATIO * max(float(np.median(mean)), 1.0)
        used = (z < MAX_RESIDUAL_Z) & is_plane[self.tracks.point]
        count = np.bincount(self.tracks.point[used], minlength=len(self.places))
        used &= (count >= MIN_POINT_FRAMES)[self.tracks.point]
        in_frame = np.bincount(self.tracks.frame[used], minlength=len(self.frames))
        used &= (in_frame >= MIN_POINTS)[self.tracks.frame]
        if used.sum() * 2 < 6 * len(self.frames) + MIN_FREEDOM:
            raise InputError(
                "too few points of the ground agree on the motion of the camera: is it flat, textured and at rest?"
            )
        self._keep(used)

    def _keep(self, used: np.ndarray) -> None:
        tracks = self.tracks.select(used)
        frames = np.unique(np.concatenate([tracks.frame, list(self.references)]).astype(int))
        numbers, point = np.unique(tracks.point, return_inverse=True)
        self.tracks = replace(tracks, frame=np.searchsorted(frames, tracks.frame), point=point)
        self.references = {int(np.searchsorted(frames, k)): ref for k, ref in self.references.items()}
        self.frames, self.R, self.t = self.frames[frames], self.R[frames], self.t[frames]
        self.places = self.places[numbers]


def _difference(reference: Reference, R: np.ndarray, t: np.ndarray) -> np.ndarray:
    """ω and t (6,) from a pose to its reference."""
    from scipy.spatial.transform import Rotation

    return np.concatenate([Rotation.from_matrix(reference.R @ R.T).as_rotvec(), reference.t - t])
