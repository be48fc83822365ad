"""Variants: the same snapshot with another module image, compiler, JIT option or launch geometry.

Nothing here loads a driver.
"""
