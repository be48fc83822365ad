// Module scope: versions, variables, and the heads of functions.
#include <cmath>

#include "ptx/declarations.hpp"

namespace emulator::ptx {

namespace {

class ModuleParser {
public:
  explicit ModuleParser(Module &module) : module_(module), lexer_(module.text, 1) {}

  void parse() {
    while (!lexer_.at_end()) {
      if (lexer_.accept(';'))
        continue;
      std::string_view word = lexer_.directive();
      if (word.empty())
        lexer_.fail("expected a directive at module scope");
      directive(word);
    }
    if (module_.version == 0)
      lexer_.fail("no .version directive: this is not PTX");
  }

private:
  void directive(std::string_view word) {
    if (word == "version") {
      Number number = lexer_.number();
      double value = 0;
      __builtin_memcpy(&value, &number.bits, 8);
      if (number.kind != Number::Kind::real64 || !(value >= 1 && value < 100))
        lexer_.fail("expected a version such as 8.4 behind .version");
      module_.version = static_cast<uint32_t>(std::lround(value * 10));
    } else if (word == "target") {
      do {
        std::string_view name = lexer_.name();
        if (name.substr(0, 3) == "sm_")
          for (char c : name.substr(3))
            if (c >= '0' && c <= '9' && module_.target_sm < 10000)
              module_.target_sm = module_.target_sm * 10 + static_cast<uint32_t>(c - '0');
      } while (lexer_.accept(','));
    } else if (word == "address_size") {
      if (lexer_.number().bits != 64)
        lexer_.fail("only 64-bit addresses are supported");
    } else if (word == "file") {
      uint32_t index = static_cast<uint32_t>(lexer_.number().bits);
      module_.files[index] = lexer_.string();
      while (lexer_.accept(','))
        lexer_.number();
    } else if (word == "loc") {
      lexer_.number(), lexer_.number(), lexer_.number();
    } else if (word == "section") {
      lexer_.directive().empty() ? void(lexer_.name()) : void();
      lexer_.expect('{', "behind .section");
      lexer_.block();
    } else if (word == "pragma") {
      lexer_.string();
      lexer_.expect(';', "behind .pragma");
    } else if (word == "alias") {
      std::string_view alias = lexer_.name();
      lexer_.expect(',', "in .alias");
      auto found = module_.function_by_name.find(lexer_.name());
      if (found == module_.function_by_name.end())
        lexer_.fail(".alias of a function that is not there");
      module_.function_by_name[alias] = found->second;
      lexer_.expect(';', "behind .alias");
    } else {
      declaration(word);
    }
  }

  void declaration(std::string_view word) {
    Variable qualified;
    bool is_extern = false;
    for (;; word = lexer_.directive()) {
      Space space;
      if (word == "visible" || word == "weak" || word == "common")
        continue;
      if (word == "extern") {
        is_extern = true;
      } else if (word == "entry" || word == "func") {
        function(word == "entry");
        return;
      } else if (space_from_directive(word, space)) {
        qualified.is_extern = is_extern;
        std::deque<Variable> list;
        parse_variable_list(lexer_, space, qualified, list);
        for (Variable &variable : list)
          add(std::move(variable));
        return;
      } else {
        lexer_.fail("unknown directive '." + std::string(word) + "'");
      }
    }
  }

  void add(Variable &&variable) {
    auto found = module_.variable_by_name.find(variable.name);
    if (found != module_.variable_by_name.end()) {
      // A definition behind its .extern declaration.
      if (found->second->is_extern && !variable.is_extern)
        *found->second = std::move(variable);
      return;
    }
    module_.variables.push_back(std::move(variable));
    module_.variable_by_name[module_.variables.back().name] = &module_.variables.back();
  }

  void parameter_list(std::deque<Variable> &into) {
    while (!lexer_.accept(')')) {
      std::string_view word = lexer_.directive();
      if (word != "param" && word != "reg")
        lexer_.fail("expected .param or .reg in a parameter list");
      into.push_back(parse_variable(lexer_, Space::parameter, Variable{}));
      into.back().is_register = word == "reg";
      if (!lexer_.accept(',') && lexer_.peek() != ')')
        lexer_.fail("expected ',' or ')' in a parameter list");
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

  void function(bool is_entry) {
    Function function;
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
        uint64_t product = uint64_t{extents[0]} * extents[1] * extents[2];
        function.max_threads = product < 1024 ? static_cast<uint32_t>(product) : 1024;
      } else if (word == "reqntid") {
        dimensions(function.required_block);
      } else if (word == "reqnctapercluster") {
        dimensions(function.required_cluster);
      } else if (word == "pragma") {
        lexer_.string();
        lexer_.expect(';', "behind .pragma");
      } else if (word == "attribute") {
        lexer_.expect('(', "behind .attribute");
        lexer_.skip_past(')');
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
      lexer_.expect(';', "or '{' behind the head of a function");
      function.is_extern = true;
    }
    auto found = module_.function_by_name.find(function.name);
    if (found != module_.function_by_name.end()) {
      if (found->second->is_extern && !function.is_extern)
        *found->second = std::move(function);
      return;
    }
    module_.functions.push_back(std::move(function));
    module_.function_by_name[module_.functions.back().name] = &module_.functions.back();
  }

  Module &module_;
  Lexer lexer_;
};

} // namespace

std::unique_ptr<Module> parse_module(std::string_view text) {
  auto module = std::make_unique<Module>();
  module->text = std::string(text);
  ModuleParser(*module).parse();
  return module;
}

} // namespace emulator::ptx
