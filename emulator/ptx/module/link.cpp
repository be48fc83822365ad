// Names across the texts of a module: which definition each one means (PTX ISA, "Linking Directives").
#include "ptx/module/link.hpp"

#include "ptx/syntax/lexer.hpp"

namespace emulator::ptx {

namespace {

// A definition of a name that other texts can see.
struct Candidate {
  Named *named;
  uint32_t text;
};

bool is_defined(const Named &named) {
  return named.symbol.variable ? !named.symbol.variable->is_extern
                               : named.symbol.function && !named.symbol.function->is_extern;
}

std::string text_name(const Module &module, uint32_t text) {
  const std::string &name = module.texts[text].name;
  return name.empty() ? "text " + std::to_string(text + 1) : name;
}

[[noreturn]] void fail(const Module &module, const Candidate &where, const std::string &what) {
  const Symbol &symbol = where.named->symbol;
  uint32_t line = symbol.variable ? symbol.variable->line : symbol.function->line;
  throw SyntaxError((module.texts.size() > 1 ? text_name(module, where.text) + ": " : "") + "line " +
                    std::to_string(line) + ": " + what);
}

// Strong before common before weak; the largest of the common ones, else the first.
const Candidate *chosen(const Module &module, std::string_view name,
                        const std::vector<Candidate> &candidates) {
  const Candidate *best = nullptr;
  auto rank = [](const Candidate &c) {
    return c.named->linkage == Linkage::visible ? 3 : c.named->linkage == Linkage::common ? 2 : 1;
  };
  auto bytes = [](const Candidate &c) {
    return c.named->symbol.variable ? c.named->symbol.variable->size_bytes : 0;
  };
  for (const Candidate &candidate : candidates) {
    if (!is_defined(*candidate.named))
      continue;
    if (!best || rank(candidate) > rank(*best) ||
        (rank(candidate) == 2 && rank(*best) == 2 && bytes(candidate) > bytes(*best))) {
      best = &candidate;
    } else if (rank(candidate) == 3 && rank(*best) == 3) {
      fail(module, candidate,
           "'" + std::string(name) + "' is defined a second time; the first definition is in " +
               text_name(module, best->text));
    }
  }
  return best;
}

// Initial values name what is there: a variable, or a function that has a body.
void check_initial_values(const Module &module) {
  for (const Variable &variable : module.variables)
    for (const AddressInitialiser &address : variable.addresses) {
      const Text &text = module.texts[variable.text];
      auto found = text.names.find(address.symbol);
      if (found != text.names.end() &&
          (is_defined(found->second) ||
           module.is_provided(address.symbol, found->second.symbol.function != nullptr)))
        continue;
      std::string what = "the initial value of '" + std::string(variable.name) + "' names '" +
                         std::string(address.symbol) + "', which is not defined";
      Lexer(text, text.text, 1).fail_at(static_cast<size_t>(address.symbol.data() - text.text.data()), what);
    }
}

} // namespace

void link(Module &module) {
  std::vector<std::string_view> order; // of the texts
  std::unordered_map<std::string_view, std::vector<Candidate>> shared;
  for (uint32_t t = 0; t < module.texts.size(); ++t)
    for (auto &[name, named] : module.texts[t].names) {
      if (named.linkage == Linkage::internal)
        continue;
      auto &candidates = shared[name];
      if (candidates.empty())
        order.push_back(name);
      candidates.push_back({&named, t});
    }
  for (std::string_view name : order) {
    std::vector<Candidate> &candidates = shared[name];
    const Candidate *definition = chosen(module, name, candidates);
    Symbol symbol = definition ? definition->named->symbol : candidates[0].named->symbol;
    for (const Candidate &candidate : candidates) {
      Symbol &own = candidate.named->symbol;
      if ((own.variable != nullptr) != (symbol.variable != nullptr))
        fail(module, candidate,
             "'" + std::string(name) + "' is a " + (own.variable ? "variable" : "function") + " here and a " +
                 (own.variable ? "function" : "variable") + " elsewhere");
      if (own.variable != symbol.variable && own.variable->space != symbol.variable->space)
        fail(module, candidate,
             "the variable '" + std::string(name) + "' lies in another state space elsewhere");
      if (own.function != symbol.function && own.function->is_entry != symbol.function->is_entry)
        fail(module, candidate,
             "'" + std::string(name) + "' is a kernel in one place and a function in another");
      if (own.variable != symbol.variable)
        own.variable->is_replaced = true;
      if (own.function != symbol.function && own.function->name == name) // and not an alias of another one
        own.function->is_replaced = true;
      own = symbol;
    }
    module.names[name] = {symbol, definition ? definition->named->linkage : Linkage::external};
  }
  for (Text &text : module.texts)
    for (const auto &[name, named] : text.names)
      if (named.linkage == Linkage::internal)
        module.names.insert({name, named});
  check_initial_values(module);
}

} // namespace emulator::ptx
