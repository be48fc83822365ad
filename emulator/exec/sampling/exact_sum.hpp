// Sums without rounding errors: filters weigh up to 16 texels, and the result is the exact value rounded
// once.
#pragma once

#include <cstdint>
#include <cstring>

namespace emulator {

class ExactSum {
public:
  // Terms must be finite. Their partial sums never overlap, so none loses a bit (Shewchuk, "Adaptive
  // Precision Floating-Point Arithmetic", 1997).
  void add(double term) {
    uint32_t kept = 0;
    for (uint32_t p = 0; p < count_; ++p) {
      double partial = partials_[p];
      double sum = term + partial, own = sum - partial;
      double error = (term - own) + (partial - (sum - own));
      if (error != 0)
        partials_[kept++] = error;
      term = sum;
    }
    partials_[kept++] = term;
    count_ = kept;
  }

  // The sum divided by a whole number below 2^16, rounded once. A zero is positive.
  float divided_by(uint32_t divisor) const {
    if (count_ == 0)
      return 0;
    uint32_t left = count_;
    double high = partials_[--left], low = 0;
    while (left > 0 && low == 0) {
      double next = partials_[--left], sum = high + next;
      low = next - (sum - high);
      high = sum;
    }
    if (high == 0)
      return 0;
    double quotient = high / divisor, rest = low;
    if (divisor != 1) {
      // What the division leaves, exactly: the upper half of the quotient has 26 bits, the divisor 16.
      double upper = quotient * 134217729.0;
      upper = upper - (upper - quotient);
      rest = ((high - upper * divisor) - (quotient - upper) * divisor) + low;
    }
    // Rounding to odd keeps what the second rounding, to f32, must know.
    if (rest != 0) {
      int64_t bits;
      std::memcpy(&bits, &quotient, sizeof bits);
      bool grows = (rest > 0) == (quotient > 0);
      if (!(bits & 1))
        bits += grows ? 1 : -1;
      std::memcpy(&quotient, &bits, sizeof bits);
    }
    return static_cast<float>(quotient);
  }

private:
  double partials_[40];
  uint32_t count_ = 0;
};

} // namespace emulator
