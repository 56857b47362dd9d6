"""ResNet-50 v1b for MXNet 1.9.1, whose model zoo lacks it (Python 3.8 and later).

The parameters have the names of gluon-cv and of mxlite's model zoo, so that one file fits all. The
stride of a stage lies in the 3 x 3 convolution of its first block. start.py gives MXNet the name
``mxlite``. With mxlite itself, the module makes the same network as the model zoo.
"""

from mxlite.gluon import HybridBlock, nn

DEPTHS = (3, 4, 6, 3)


class Bottleneck(HybridBlock):
    """1 x 1, 3 x 3 and 1 x 1 convolutions and a shortcut."""

    def __init__(self, planes, stride, downsample, last_gamma):
        super().__init__()
        gamma = "zeros" if last_gamma else "ones"
        self.conv1 = nn.Conv2D(planes, 1, use_bias=False)
        self.bn1 = nn.BatchNorm()
        self.conv2 = nn.Conv2D(planes, 3, stride, 1, use_bias=False)
        self.bn2 = nn.BatchNorm()
        self.conv3 = nn.Conv2D(4 * planes, 1, use_bias=False)
        self.bn3 = nn.BatchNorm(gamma_initializer=gamma)
        self.downsample = None
        if downsample:
            self.downsample = nn.HybridSequential()
            self.downsample.add(nn.Conv2D(4 * planes, 1, stride, use_bias=False), nn.BatchNorm())

    def hybrid_forward(self, F, x):
        """Map (N, C, H, W) to (N, 4 planes, H / stride, W / stride)."""
        shortcut = x if self.downsample is None else self.downsample(x)
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + shortcut)


class ResNet50(HybridBlock):
    """The network.

    Parameters
    ----------
    classes : int
        Size of the output's last dimension.
    last_gamma : bool
        Start the gamma of each block's last BatchNorm at zero.
    """

    def __init__(self, classes=1000, last_gamma=False):
        super().__init__()
        self.conv1 = nn.Conv2D(64, 7, 2, 3, use_bias=False)
        self.bn1 = nn.BatchNorm()
        self.maxpool = nn.MaxPool2D(3, 2, 1)
        for stage, depth in enumerate(DEPTHS):
            blocks = nn.HybridSequential()
            for block in range(depth):
                stride = 2 if block == 0 and stage > 0 else 1
                blocks.add(Bottleneck(64 << stage, stride, block == 0, last_gamma))
            setattr(self, f"layer{stage + 1}", blocks)
        self.avgpool = nn.GlobalAvgPool2D()
        self.fc = nn.Dense(classes)

    def hybrid_forward(self, F, x):
        """Map pictures (N, 3, H, W) to scores (N, classes)."""
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x))


def get_model(name, pretrained=False, ctx=None, **options):
    """Return the network; the function replaces that of the model zoo.

    Parameters
    ----------
    name : str
        Only ``"resnet50_v1b"``.
    pretrained : bool
        Only False.
    ctx
        Not used without pre-trained parameters.
    **options
        Arguments of :class:`ResNet50`.

    Returns
    -------
    HybridBlock
        Not initialized.
    """
    if name != "resnet50_v1b" or pretrained:
        raise ValueError(f"only resnet50_v1b without pre-trained parameters, given {name!r}")
    return ResNet50(**options)
