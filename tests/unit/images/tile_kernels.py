"""A kernel in CUDA Tile, which reads its source from the file that it is in."""

import cuda.tile as tile


@tile.kernel
def scale(source, factor, target, width: tile.Constant[int]):
    block = tile.bid(0)
    tile.store(target, index=(block,), tile=tile.load(source, index=(block,), shape=(width,)) * factor)
