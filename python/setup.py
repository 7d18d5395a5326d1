# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The wheel: the package with the static binary, for any Python 3 on this kind of machine.

`scripts/wheel` puts the binary into `sandbag/bin` and gives the version.
"""

import os
import platform

from setuptools import setup
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    from wheel.bdist_wheel import bdist_wheel


class PlatformWheel(bdist_wheel):
    """A binary that needs no library and no interpreter's interface."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", f"manylinux2014_{platform.machine()}"


class BinaryDistribution(Distribution):
    def has_ext_modules(self):
        return True


setup(
    name="sandbag",
    version=os.environ.get("SANDBAG_VERSION", "0"),
    description="Put a program under chosen CPU conditions, and show how well they were kept",
    license="Apache-2.0 OR MIT",
    python_requires=">=3.9",
    packages=["sandbag"],
    package_data={"sandbag": ["bin/sandbag"]},
    extras_require={"frame": ["pandas"]},
    entry_points={
        "console_scripts": ["sandbag = sandbag._program:main"],
        "pytest11": ["sandbag = sandbag.pytest_plugin"],
    },
    cmdclass={"bdist_wheel": PlatformWheel},
    distclass=BinaryDistribution,
)
