// Variable declarations, which look the same at module scope, in a parameter list and inside a body.
#pragma once

#include <deque>

#include "ptx/syntax/lexer.hpp"
#include "ptx/syntax/module.hpp"

namespace emulator::ptx {

// The state space that a directive names; false when it names none.
bool space_from_directive(std::string_view directive, Space &space);

// Reads what follows the space directive, up to but without the ';', ',' or ')': qualifiers, type, name,
// extents, initial value. `qualified` holds what the caller has read already (alignment, managed).
Variable parse_variable(Lexer &lexer, Space space, const Variable &qualified);

// "name, name;" after parse_variable: the rest of a list of variables that share their type.
void parse_variable_list(Lexer &lexer, Space space, const Variable &qualified, std::deque<Variable> &into);

// Directives of module scope and of bodies, after their first word.
void parse_file(Lexer &lexer, Text &text);
void parse_location(Lexer &lexer, SourceLine &location);
// Gives the bytes that the next load uses: all, unless a used_bytes_mask says which.
uint32_t parse_pragma(Lexer &lexer);

} // namespace emulator::ptx
