// Module scope: versions, variables, and the heads of functions.
#include "ptx/module/parse_module.hpp"

#include <cmath>

#include "ptx/body/parse_body.hpp"
#include "ptx/module/link.hpp"
#include "ptx/syntax/declarations.hpp"

namespace emulator::ptx {

namespace {

// .version: what the newest released toolkits write is 9.x; a later one may mean anything by what it says.
constexpr uint32_t newest_version = 99;

class ModuleParser {
public:
  ModuleParser(Module &module, uint32_t text_index)
      : module_(module), text_index_(text_index), text_(module.texts[text_index]),
        lexer_(text_, text_.text, 1) {}

  void parse() {
    while (!lexer_.at_end()) {
      if (lexer_.accept(';'))
        continue;
      if (lexer_.accept('@')) { // "@@DWARF": debug information as old compilers write it
        lexer_.skip_line();
        continue;
      }
      std::string_view word = lexer_.directive();
      if (word.empty())
        lexer_.fail_here("expected a directive at module scope");
      if (text_.version == 0 && word != "version")
        lexer_.fail("a PTX text begins with .version, not with ." + std::string(word));
      directive(word);
    }
    if (text_.version == 0)
      lexer_.fail("no .version directive: this is not PTX");
    if (!has_target_)
      lexer_.fail("no .target directive");
    resolve_aliases();
  }

private:
  void directive(std::string_view word) {
    if (word == "version") {
      version();
    } else if (word == "target") {
      target();
    } else if (word == "address_size") {
      uint64_t bits = lexer_.number().bits;
      if (bits != 64)
        lexer_.fail("addresses of " + std::to_string(bits) + " bits: only 64-bit addresses are supported");
    } else if (word == "file") {
      parse_file(lexer_, text_);
    } else if (word == "loc") {
      SourceLine ignored;
      parse_location(lexer_, ignored);
    } else if (word == "section") {
      lexer_.directive().empty() ? void(lexer_.name()) : void();
      lexer_.expect('{', "after .section");
      lexer_.block();
    } else if (word == "pragma") {
      parse_pragma(lexer_);
    } else if (word == "alias") {
      Alias alias;
      alias.name = lexer_.name();
      alias.position = lexer_.position();
      lexer_.expect(',', "in .alias");
      alias.target = lexer_.name();
      lexer_.expect(';', "after .alias");
      aliases_.push_back(alias);
    } else {
      declaration(word);
    }
  }

  void version() {
    Number number = lexer_.number();
    double value = 0;
    __builtin_memcpy(&value, &number.bits, 8);
    if (number.kind != Number::Kind::real64 || !(value >= 1 && value < 100))
      lexer_.fail("expected a version such as 8.4 after .version");
    auto found = static_cast<uint32_t>(std::lround(value * 10));
    if (found > newest_version)
      lexer_.fail_version("PTX version " + std::to_string(found / 10) + "." + std::to_string(found % 10) +
                          " is newer than this driver, which knows versions up to 9");
    if (text_.version != 0 && text_.version != found)
      lexer_.fail("a second .version that differs from the first");
    text_.version = found;
  }

  void target() {
    has_target_ = true;
    do {
      std::string_view name = lexer_.name();
      if (name.substr(0, 3) == "sm_" || name.substr(0, 8) == "compute_") {
        uint32_t sm = 0;
        size_t digit = name.find('_') + 1;
        for (; digit < name.size() && name[digit] >= '0' && name[digit] <= '9' && sm < 10000; ++digit)
          sm = sm * 10 + static_cast<uint32_t>(name[digit] - '0');
        std::string_view variant = name.substr(digit);
        if (sm < 10 || sm >= 1000 || !(variant.empty() || variant == "a" || variant == "f"))
          lexer_.fail("'" + std::string(name) + "' is no architecture");
        text_.target_sm = sm;
      } else if (name != "texmode_unified" && name != "texmode_independent" && name != "debug" &&
                 name != "map_f64_to_f32") {
        lexer_.fail("unknown target '" + std::string(name) + "'");
      }
    } while (lexer_.accept(','));
  }

  void declaration(std::string_view word) {
    Variable qualified;
    qualified.text = text_index_;
    for (;; word = lexer_.directive()) {
      Space space;
      if (word == "visible") {
        qualified.linkage = Linkage::visible;
      } else if (word == "weak") {
        qualified.linkage = Linkage::weak;
      } else if (word == "common") {
        qualified.linkage = Linkage::common;
      } else if (word == "extern") {
        qualified.linkage = Linkage::external;
        qualified.is_extern = true;
      } else if (word == "entry" || word == "func") {
        function(word == "entry", qualified.linkage);
        return;
      } else if (space_from_directive(word, space)) {
        // Shared arrays whose length the launch decides are .extern and still each text's own.
        if (space == Space::shared && qualified.linkage == Linkage::external)
          qualified.linkage = Linkage::internal;
        if (space == Space::parameter)
          lexer_.fail("a .param variable outside of a function");
        std::deque<Variable> list;
        parse_variable_list(lexer_, space, qualified, list);
        for (Variable &variable : list)
          add(std::move(variable));
        return;
      } else {
        lexer_.fail(word.empty() ? "expected .global, .func or .entry in a declaration"
                                 : "unknown directive '." + std::string(word) + "'");
      }
    }
  }

  [[noreturn]] void defined_twice(std::string_view name, uint32_t line) {
    lexer_.fail("'" + std::string(name) + "' is defined twice, first on line " + std::to_string(line));
  }

  void add(Variable &&variable) {
    auto found = text_.names.find(variable.name);
    if (found == text_.names.end()) {
      module_.variables.push_back(std::move(variable));
      Variable &kept = module_.variables.back();
      text_.names[kept.name] = {{&kept, nullptr}, kept.linkage};
      return;
    }
    Variable *earlier = found->second.symbol.variable;
    if (!earlier)
      defined_twice(variable.name, found->second.symbol.function->line);
    if (variable.is_extern)
      return; // another declaration
    if (!earlier->is_extern)
      defined_twice(variable.name, earlier->line);
    if (variable.linkage == Linkage::internal)
      variable.linkage = Linkage::visible; // it was declared .extern
    *earlier = std::move(variable);
    found->second.linkage = earlier->linkage;
  }

  void parameter_list(std::deque<Variable> &into) {
    while (!lexer_.accept(')')) {
      std::string_view word = lexer_.directive();
      if (word != "param" && word != "reg")
        lexer_.fail("expected .param or .reg in a parameter list");
      into.push_back(parse_variable(lexer_, Space::parameter, Variable{}));
      into.back().is_register = word == "reg";
      for (size_t p = 0; p + 1 < into.size(); ++p)
        if (into[p].name == into.back().name && into[p].name != "_")
          lexer_.fail("two parameters named '" + std::string(into[p].name) + "'");
      if (into.size() > most_parameters)
        lexer_.fail("more than " + std::to_string(most_parameters) + " parameters");
      if (!lexer_.accept(',') && lexer_.peek() != ')')
        lexer_.fail_here("expected ',' or ')' in a parameter list");
    }
  }

  void dimensions(uint32_t (&into)[3]) {
    into[0] = into[1] = into[2] = 1;
    for (int d = 0;; ++d) {
      uint64_t extent = lexer_.number().bits;
      if (d < 3)
        into[d] = static_cast<uint32_t>(extent);
      if (!lexer_.accept(','))
        return;
    }
  }

  void function(bool is_entry, Linkage linkage) {
    Function function;
    function.text_index = text_index_;
    function.is_entry = is_entry;
    if (lexer_.accept('('))
      parameter_list(function.returns);
    function.line = lexer_.line();
    function.name = lexer_.name();
    if (function.name.empty())
      lexer_.fail("expected the name of a function");
    if (lexer_.accept('('))
      parameter_list(function.parameters);
    for (std::string_view word = lexer_.directive(); !word.empty(); word = lexer_.directive()) {
      if (word == "maxntid") {
        uint32_t extents[3];
        dimensions(extents);
        uint64_t product = uint64_t{extents[0]} * extents[1];
        product = product > 1024 ? 1024 : product * extents[2];
        function.max_threads = product < 1024 ? static_cast<uint32_t>(product) : 1024;
      } else if (word == "reqntid") {
        dimensions(function.required_block);
      } else if (word == "reqnctapercluster") {
        dimensions(function.required_cluster);
      } else if (word == "pragma") {
        parse_pragma(lexer_);
      } else if (word == "attribute") {
        lexer_.expect('(', "after .attribute");
        lexer_.skip_parentheses();
      } else if (word == "noreturn" || word == "explicitcluster" || word == "blocksareclusters") {
        continue;
      } else if (lexer_.at_number()) { // .minnctapersm, .maxnreg, .maxclusterrank, ...
        uint32_t ignored[3];
        dimensions(ignored);
      }
    }
    if (lexer_.accept('{')) {
      function.text_line = lexer_.line();
      function.text = lexer_.block();
    } else {
      lexer_.expect(';', "or '{' after the head of a function");
      function.is_extern = true;
      if (linkage == Linkage::internal)
        linkage = Linkage::external; // defined further down, or in another text
    }
    function.linkage = linkage;
    add(std::move(function));
  }

  void add(Function &&function) {
    auto found = text_.names.find(function.name);
    if (found == text_.names.end()) {
      module_.functions.push_back(std::move(function));
      Function &kept = module_.functions.back();
      text_.names[kept.name] = {{nullptr, &kept}, kept.linkage};
      return;
    }
    Function *earlier = found->second.symbol.function;
    if (!earlier)
      defined_twice(function.name, found->second.symbol.variable->line);
    if (function.is_extern)
      return; // another declaration
    if (!earlier->is_extern)
      defined_twice(function.name, earlier->line);
    // A declaration with .visible or .weak says so for the definition too; one without a word leaves it
    // internal.
    bool keeps = function.linkage == Linkage::internal && earlier->linkage != Linkage::external;
    if (keeps)
      function.linkage = earlier->linkage;
    *earlier = std::move(function);
    found->second.linkage = earlier->linkage;
  }

  struct Alias {
    std::string_view name, target;
    size_t position = 0;
  };

  void resolve_aliases() {
    for (const Alias &alias : aliases_) {
      auto target = text_.names.find(alias.target);
      if (target == text_.names.end() || !target->second.symbol.function ||
          target->second.symbol.function->is_extern)
        lexer_.fail_at(alias.position, ".alias of '" + std::string(alias.target) +
                                           "', which is no function defined in this text");
      auto declared = text_.names.find(alias.name);
      if (declared == text_.names.end()) {
        text_.names[alias.name] = target->second;
      } else {
        if (!declared->second.symbol.function || !declared->second.symbol.function->is_extern)
          lexer_.fail_at(alias.position,
                         "'" + std::string(alias.name) + "' is defined, so it cannot be an .alias");
        declared->second.symbol.function->is_replaced = true;
        declared->second.symbol = target->second.symbol;
      }
    }
  }

  static constexpr size_t most_parameters = 4096;

  Module &module_;
  uint32_t text_index_;
  Text &text_;
  Lexer lexer_;
  bool has_target_ = false;
  std::vector<Alias> aliases_;
};

void check_bodies(const Module &module) {
  for (const Function &function : module.functions)
    if (!function.is_extern)
      parse_body(module, function);
}

} // namespace

std::unique_ptr<Module> parse_module(std::vector<Source> texts, IsProvided is_provided) {
  auto module = std::make_unique<Module>();
  module->is_provided = std::move(is_provided);
  for (Source &source : texts) {
    Text text;
    text.name = std::move(source.name);
    text.text = std::move(source.text);
    module->texts.push_back(std::move(text));
  }
  for (uint32_t t = 0; t < module->texts.size(); ++t)
    ModuleParser(*module, t).parse();
  link(*module);
  check_bodies(*module);
  return module;
}

} // namespace emulator::ptx
