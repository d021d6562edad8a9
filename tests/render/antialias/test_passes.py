"""Colours mixed with those of neighbours."""

import torch

from gradsim.render.antialias.passes import mix

HEIGHT, WIDTH = 3, 4
NEIGHBOURS = ((0, -1), (0, 1), (-1, 0), (1, 0))  # row and column: left, right, above, below


def given():
    """Every pixel of two images is a fragment; shares of neighbours inside, and of them, what is of the near side."""
    generator = torch.Generator().manual_seed(0)
    random = lambda *shape: torch.rand(*shape, dtype=torch.float64, generator=generator)
    rows = torch.arange(2 * HEIGHT * WIDTH, dtype=torch.int32).view(2, HEIGHT, WIDTH)
    image, row, column = torch.meshgrid(*(torch.arange(n) for n in rows.shape), indexing="ij")
    owner = torch.stack([image, torch.zeros_like(image), column, row], -1).view(-1, 4).int()
    shares = 0.4 * random(len(owner), 5)
    for way, (down, right) in enumerate(NEIGHBOURS):
        inside = (0 <= row + down) & (row + down < HEIGHT) & (0 <= column + right) & (column + right < WIDTH)
        shares[:, way] *= inside.flatten()
    shares[:, 4] *= shares[:, :4].sum(1)
    return random(len(owner), 3), shares, 0.2 + 0.8 * random(2, HEIGHT, WIDTH), owner, rows


def reference(colors, shares, alpha, owner, rows):
    """The far side gets what is covered and not the near side's: of Σ w, the near side's share is n, and 1 − α is missing."""
    mixed = []
    for k, (image, _, column, row) in enumerate(owner.tolist()):
        own, a = shares[k, :4], alpha[image, row, column]
        total = own[own > 0].sum()
        near = min(shares[k, 4], total)
        kept = min((total - min(1 - a, near)) / (total * a), 1 / total) if total > 0 else 0.0
        colour = colors[k]
        for way, (down, right) in enumerate(NEIGHBOURS):
            if shares[k, way] > 0:
                other = colors[int(rows[image, row + down, column + right])]
                colour = colour + kept * shares[k, way] * (other - colors[k])
        mixed.append(colour)
    return torch.stack(mixed)


def test_mixed_colors_are_those_of_the_definition():
    colors, *others = given()
    assert torch.allclose(mix(colors, *others), reference(colors, *others), rtol=1e-13)


def test_gradients_of_mixed_colors_are_those_of_the_definition():
    colors, shares, alpha, *others = given()
    asked = [x.requires_grad_() for x in (colors, shares, alpha)]
    weight = torch.rand(colors.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found, wanted = (torch.autograd.grad((f(*asked, *others) * weight).sum(), asked) for f in (mix, reference))
    for name, a, b in zip(("colors", "shares", "alpha"), found, wanted, strict=True):
        assert torch.allclose(a, b, rtol=1e-11, atol=1e-13), name
        assert (b != 0).any()
    assert (wanted[1][:, 4] != 0).sum() > 5  # some, by what the near side keeps
