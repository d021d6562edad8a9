"""Image losses, for gradient descent and as residuals of least squares, and mesh regularizers.

    loss         residual                                       basin of convergence
    mse          differences of pixels                          one body diameter; exact
    l1           their absolute values                          one diameter; robust to outliers
    iou          1 − intersection over union                    one diameter; relative to the body's area
    pyramid      differences at every scale                     wide
    cdf          normalized CDFs of rows and columns            whole image
    moments      centroid and second moments                    whole image; five numbers
    whereabouts  centroid and size as a distance                whole image; three numbers
    distance     differences times the distance to the outline  whole image

`Robust` and `Blurred` wrap any of them; a `Schedule` changes from a wide basin to an exact loss. `laplacian` and `flatness`
measure the roughness of a surface, to regularize what images leave undetermined; `smoothing` preconditions its vertices.
"""

from gradsim.losses.base import ImageLoss
from gradsim.losses.image import L1, MSE, Distance, IoU, Pyramid
from gradsim.losses.mesh import flatness, laplacian, smoothing
from gradsim.losses.registry import LOSSES, image_loss
from gradsim.losses.schedule import LossStage, Schedule, blur_to_sharp, coarse_to_fine, stage
from gradsim.losses.transport import CDF, CentroidSize, Moments, cdf, cdf_of_sums, cdf_of_sums_tangent, cdf_tangent
from gradsim.losses.wrappers import Blurred, Robust, blur

mse, transport = MSE(), CDF()

__all__ = [
    "CDF",
    "L1",
    "LOSSES",
    "MSE",
    "Blurred",
    "CentroidSize",
    "Distance",
    "ImageLoss",
    "IoU",
    "LossStage",
    "Moments",
    "Pyramid",
    "Robust",
    "Schedule",
    "blur",
    "blur_to_sharp",
    "cdf",
    "cdf_of_sums",
    "cdf_of_sums_tangent",
    "cdf_tangent",
    "coarse_to_fine",
    "flatness",
    "image_loss",
    "laplacian",
    "mse",
    "smoothing",
    "stage",
    "transport",
]
