// Constant expressions (PTX ISA, "Constant Expressions"): operators and precedences of C, integers of 64 bits
// that are signed unless something says otherwise, and real numbers of 64 bits. What the ISA leaves open
// (which operators keep the sign, how far a shift goes) is as ptxas 13.0 was seen to do.
#pragma once

#include "ptx/syntax/lexer.hpp"

namespace emulator::ptx {

// Whether an expression begins at the next character.
bool at_constant(Lexer &lexer);

// Reads the longest expression. Throws SyntaxError.
Number constant_expression(Lexer &lexer);

// The same, of which real numbers are no part.
int64_t integer_expression(Lexer &lexer);

} // namespace emulator::ptx
