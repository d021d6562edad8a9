"""Camera and its covariance from targets in view: boards, markers, a sheet of paper.

`target` names what is in view, `frames` reads and chooses views, `detect` and `outline` measure corners, `lens` projects,
`estimate` is the maximum-likelihood fit.
"""
