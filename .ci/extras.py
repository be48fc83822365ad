"""Prints the requirements of the named extras of the installed package that hold here, for `pip install -r`.

usage: python .ci/extras.py EXTRA...
"""

import sys
from importlib.metadata import requires

from pip._vendor.packaging.requirements import Requirement  # of the pip that will read them

for line in requires("gpu-replay") or ():
    requirement = Requirement(line)
    marker, requirement.marker = requirement.marker, None
    if marker is None or marker.evaluate({"extra": ""}):
        continue
    if any(marker.evaluate({"extra": extra}) for extra in sys.argv[1:]):
        print(requirement)
