"""How far images are from others: losses for descent that are residuals for least squares too.

    mse          differences of pixels                          sees one diameter; exact
    l1           their absolute values                          the same; outliers count less
    iou          1 − intersection over union                    the same; a share of the body's area
    pyramid      differences at every scale                     sees far
    cdf          normalised CDFs of rows and columns            sees the whole image
    moments      centroid and second moments                    sees the whole image; five numbers
    whereabouts  centroid and size as a distance                sees the whole image; three numbers
    distance     differences times the distance to the outline  sees the whole image

`Robust` and `Blurred` wrap any of them; a `Schedule` goes from one that sees far to one that is exact. `laplacian` and `flatness` say
how rough a surface is, for shapes that pictures do not fix; `smoothing` keeps it smooth while it moves.
"""

from gradsim.losses.base import ImageLoss
from gradsim.losses.image import L1, MSE, Distance, IoU, Pyramid
from gradsim.losses.mesh import flatness, laplacian, smoothing
from gradsim.losses.registry import LOSSES, Schedule, Stage, coarse_to_fine, image_loss, stage
from gradsim.losses.transport import CDF, CentroidSize, Moments, cdf, cdf_of_sums_tangent, cdf_tangent
from gradsim.losses.wrappers import Blurred, Robust, blur, blur_to_sharp

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
    "Moments",
    "Pyramid",
    "Robust",
    "Schedule",
    "Stage",
    "blur",
    "blur_to_sharp",
    "cdf",
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
