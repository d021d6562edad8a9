"""The search for pairs of vertices and triangles: none is missed."""

import torch
from law_cases import random_normal

from gradsim.physics.contact.broad_phase import Candidates
from gradsim.physics.contact.vertex_triangle import weights

N = 60
FACES = torch.randint(0, N, (80, 3), generator=torch.Generator().manual_seed(1))
FACES = FACES[(FACES[:, 0] != FACES[:, 1]) & (FACES[:, 1] != FACES[:, 2]) & (FACES[:, 0] != FACES[:, 2])]


def every_pair() -> torch.Tensor:
    vertices = torch.arange(N)
    return torch.cat([vertices.repeat_interleave(len(FACES))[:, None], FACES.repeat(N, 1)], 1)


def distances(x: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    corners = x[:, pairs]
    return (corners[:, :, 0] - (weights(corners)[..., None] * corners[:, :, 1:]).sum(2)).norm(dim=-1)


def rows(pairs: torch.Tensor) -> set:
    return set(map(tuple, pairs.tolist()))


def test_all_pairs_within_reach_on_the_way_of_any_world_are_found():
    """Straight ways, at 11 moments, in three worlds; and what is found is fewer than all."""
    start, end = random_normal(3, N, 3, seed=2), random_normal(3, N, 3, seed=3)
    end = start + 0.05 * end
    found = Candidates(torch.arange(N), FACES, start[0]).near([start, end], 0.05)
    pairs = every_pair()
    moments = torch.stack([distances(start + t * (end - start), pairs) for t in torch.linspace(0, 1, 11)])
    own = (pairs[:, 1:] == pairs[:, :1]).any(1)
    wanted = rows(pairs[(moments < 0.05).any(0).any(0) & ~own])
    assert wanted <= rows(found)
    assert 0 < len(wanted) < len(found) < len(pairs)
    assert not rows(found) & rows(pairs[own])


def test_neighbours_at_rest_are_left_out():
    rest = random_normal(N, 3, seed=4)
    pairs = every_pair()
    near = distances(rest[None], pairs)[0] < 0.2
    found = Candidates(torch.arange(N), FACES, rest, apart=0.2).near([rest[None]], 10.0)
    assert rows(found) == rows(pairs[~near])
    assert near.sum() > 3 * len(FACES)  # more than those with the vertex as a corner
