#include "exec/check/undefined/rules.hpp"

#include <algorithm>
#include <iterator>

namespace emulator {

namespace {

// Whose bits only change their places, and of which of their sources.
struct Mover {
  std::string_view mnemonic;
  uint8_t data;
};
constexpr Mover movers[] = {{"mov", 1},  {"resize", 1}, {"pack", 255}, {"unpack", 1},
                            {"brev", 1}, {"bfe", 1},    {"shl", 1},    {"shr", 1},
                            {"shf", 3},  {"prmt", 3},   {"bfi", 3},    {"selp", 3}};

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}
bool has(std::string_view form, std::string_view part) { return form.find(part) != form.npos; }
bool is_integer(std::string_view type) {
  return !type.empty() && (type[0] == 's' || type[0] == 'u' || type[0] == 'b') && type.size() > 1 &&
         type[1] >= '0' && type[1] <= '9' && !has(type, "x");
}

} // namespace

ShadowRule shadow_rule(std::string_view form) {
  const std::string_view mnemonic = form.substr(0, form.find('.'));
  const std::string_view last = form.substr(form.rfind('.') + 1);
  ShadowRule rule;
  if (mnemonic == "ld" && !has(form, "ld.param")) {
    rule.kind = ShadowKind::load;
    rule.is_signed = has(form, "ld.s");
    return rule;
  }
  if (mnemonic == "st")
    rule.kind = ShadowKind::store;
  if (is_one_of(mnemonic, {"st", "ld", "movmatrix"}))
    return rule;
  auto mover = std::find_if(std::begin(movers), std::end(movers),
                            [&](const Mover &one) { return one.mnemonic == mnemonic; });
  if (mover != std::end(movers)) {
    rule.kind = ShadowKind::moved;
    rule.data = mover->data;
    return rule;
  }
  if (mnemonic == "cvt" && is_integer(last) && !has(form, "sat") && !has(form, "pack") && form.size() < 12 &&
      is_integer(form.substr(4, form.rfind('.') - 4))) {
    rule.kind = ShadowKind::moved;
    rule.data = 1;
    return rule;
  }
  if (is_one_of(mnemonic, {"and", "or", "xor", "not", "lop3"})) {
    rule.kind = ShadowKind::bits;
    return rule;
  }
  const bool counts = is_one_of(mnemonic, {"add", "sub", "neg"}) ||
                      (is_one_of(mnemonic, {"mul", "mad"}) && !has(form, ".hi"));
  if (counts && is_integer(last) && !has(form, ".cc") && !has(form, ".sat")) {
    rule.kind = ShadowKind::carry;
    rule.data = mnemonic == "sub"; // of one and the same is 0
    return rule;
  }
  if (mnemonic == "setp" && is_integer(last)) {
    rule.kind = has(form, ".eq.") || has(form, ".ne.") ? ShadowKind::equal : ShadowKind::ordered;
    rule.is_signed = last[0] == 's';
    rule.part_bits = has(form, ".gt.") || has(form, ".le."); // asked the other way round
    return rule;
  }
  rule.kind = ShadowKind::any;
  rule.joins_halves = mnemonic == "cvt" && (has(form, "f16x2.f32"));
  if (last.size() > 2 && last.substr(last.size() - 2) == "x2" && mnemonic != "cvt")
    rule.part_bits = last == "f32x2" ? 32 : 16;
  return rule;
}

} // namespace emulator
