"""An independent reference for floating-point results: exact rational arithmetic, rounded once.

Numbers are bit patterns. A format is (exponent bits, fraction bits); rounding modes have their PTX names.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Format:
    exponent_bits: int
    fraction_bits: int
    nan: int

    @functools.cached_property
    def size_bits(self) -> int:
        return 1 + self.exponent_bits + self.fraction_bits

    @functools.cached_property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @functools.cached_property
    def infinity(self) -> int:
        return ((1 << self.exponent_bits) - 1) << self.fraction_bits

    @functools.cached_property
    def sign(self) -> int:
        return 1 << (self.size_bits - 1)


F32 = Format(8, 23, 0x7FFFFFFF)
F64 = Format(11, 52, 0xFFF8000000000000)
F16 = Format(5, 10, 0x7FFF)
BF16 = Format(8, 7, 0x7FFF)


@functools.cache
def two_to(power: int) -> Fraction:
    return Fraction(2) ** power


NAN = "nan"
INFINITY = "infinity"


def is_nan(bits: int, form: Format) -> bool:
    return bits & (form.sign - 1) > form.infinity


def is_infinite(bits: int, form: Format) -> bool:
    return bits & (form.sign - 1) == form.infinity


def negative(bits: int, form: Format) -> bool:
    return bool(bits & form.sign)


@functools.lru_cache(1 << 16)
def value(bits: int, form: Format) -> Fraction:
    """The value of a finite number."""
    exponent = (bits >> form.fraction_bits) & ((1 << form.exponent_bits) - 1)
    fraction = bits & ((1 << form.fraction_bits) - 1)
    if exponent:
        fraction |= 1 << form.fraction_bits
    power = max(exponent, 1) - form.bias - form.fraction_bits
    magnitude = fraction * two_to(power)
    return -magnitude if negative(bits, form) else magnitude


def flushed(bits: int, form: Format) -> int:
    """Subnormal numbers become zeros of their sign."""
    return bits & form.sign if not bits & form.infinity else bits


def rounded_integer(number: Fraction, mode: str) -> int:
    floor = math.floor(number)
    if mode in ("rm", "rmi"):
        return floor
    if mode in ("rp", "rpi"):
        return math.ceil(number)
    if mode in ("rz", "rzi"):
        return math.trunc(number)
    if mode == "rna":
        return math.floor(abs(number) + Fraction(1, 2)) * (-1 if number < 0 else 1)
    return round(number)  # Python rounds a half to even


def rounded(number: Fraction, form: Format, mode: str = "rn", zero_sign: bool = False) -> int:
    """The bits of an exact value in `form`; `zero_sign` is the sign of an exact zero."""
    if number == 0:
        return form.sign if zero_sign else 0
    sign = form.sign if number < 0 else 0
    magnitude = abs(number)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < two_to(exponent):
        exponent -= 1
    exponent = max(exponent, 1 - form.bias)
    unit = two_to(exponent - form.fraction_bits)
    if sign:
        mode = {"rm": "rp", "rp": "rm"}.get(mode, mode)
    units = rounded_integer(magnitude / unit, mode)
    if units >= 1 << (form.fraction_bits + 1):
        units >>= 1
        exponent += 1
    if exponent > form.bias:
        largest = form.infinity - 1
        return sign | (form.infinity if mode in ("rn", "rp", "rna") else largest)
    if units < 1 << form.fraction_bits:
        return sign | units
    return sign | ((exponent + form.bias) << form.fraction_bits) + units - (1 << form.fraction_bits)


def add(a: int, b: int, form: Format, mode: str = "rn") -> int:
    if is_nan(a, form) or is_nan(b, form):
        return form.nan
    if is_infinite(a, form) or is_infinite(b, form):
        if is_infinite(a, form) and is_infinite(b, form) and a != b:
            return form.nan
        return a if is_infinite(a, form) else b
    zeros_alike = value(a, form) == value(b, form) == 0 and negative(a, form) == negative(b, form)
    zero_sign = negative(a, form) if zeros_alike else mode == "rm"
    return rounded(value(a, form) + value(b, form), form, mode, zero_sign)


def multiply(a: int, b: int, form: Format, mode: str = "rn") -> int:
    if is_nan(a, form) or is_nan(b, form):
        return form.nan
    sign = (a ^ b) & form.sign
    zeros = not is_infinite(a, form) and value(a, form) == 0, not is_infinite(b, form) and value(b, form) == 0
    if is_infinite(a, form) or is_infinite(b, form):
        return form.nan if any(zeros) else sign | form.infinity
    return rounded(value(a, form) * value(b, form), form, mode, bool(sign))


def divide(a: int, b: int, form: Format, mode: str = "rn") -> int:
    if is_nan(a, form) or is_nan(b, form):
        return form.nan
    sign = (a ^ b) & form.sign
    if is_infinite(a, form):
        return form.nan if is_infinite(b, form) else sign | form.infinity
    if is_infinite(b, form):
        return sign
    if value(b, form) == 0:
        return form.nan if value(a, form) == 0 else sign | form.infinity
    return rounded(value(a, form) / value(b, form), form, mode, bool(sign))


def fused(a: int, b: int, c: int, form: Format, mode: str = "rn") -> int:
    if any(is_nan(x, form) for x in (a, b, c)):
        return form.nan
    sign = (a ^ b) & form.sign
    if is_infinite(a, form) or is_infinite(b, form):
        other = b if is_infinite(a, form) else a
        if not is_infinite(other, form) and value(other, form) == 0:
            return form.nan
        product = sign | form.infinity
        return form.nan if is_infinite(c, form) and c != product else product
    if is_infinite(c, form):
        return c
    product = value(a, form) * value(b, form)
    if product == 0 and value(c, form) == 0:
        zero_sign = bool(sign) if bool(sign) == negative(c, form) else mode == "rm"
    else:
        zero_sign = mode == "rm"
    return rounded(product + value(c, form), form, mode, zero_sign)


def square_root(a: int, form: Format, mode: str = "rn") -> int:
    if is_nan(a, form) or (negative(a, form) and a != form.sign):
        return form.nan
    if is_infinite(a, form) or value(a, form) == 0:
        return a
    # Enough digits that the rest, made sticky, decides every rounding.
    number = value(a, form)
    shift = 4 * form.size_bits + 2 * form.bias
    scaled = (number.numerator << (2 * shift)) // number.denominator
    root = math.isqrt(scaled)
    exact = root * root == scaled and (number.numerator << (2 * shift)) % number.denominator == 0
    return rounded(Fraction(2 * root + (0 if exact else 1), 2 << shift), form, mode)


def to_integer(a: int, form: Format, mode: str, size_bits: int, signed: bool) -> int:
    """cvt to an integer type, as bits: out of range gives the nearest integer of the type."""
    low, high = (-(1 << (size_bits - 1)), (1 << (size_bits - 1)) - 1) if signed else (0, (1 << size_bits) - 1)
    if is_nan(a, form):
        return 1 << (size_bits - 1) if size_bits == 64 or form is F64 else 0
    if is_infinite(a, form):
        result = low if negative(a, form) else high
    else:
        result = min(max(rounded_integer(value(a, form), mode), low), high)
    return result & ((1 << size_bits) - 1)


def convert(a: int, source: Format, target: Format, mode: str = "rn") -> int:
    if is_nan(a, source):
        return target.nan
    sign = target.sign if negative(a, source) else 0
    if is_infinite(a, source):
        return sign | target.infinity
    return rounded(value(a, source), target, mode, bool(sign))
