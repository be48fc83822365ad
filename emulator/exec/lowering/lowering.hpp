// From parsed instructions to lowered ones: one object lowers one function.
#pragma once

#include <functional>
#include <map>
#include <tuple>
#include <unordered_map>

#include "exec/block/pending.hpp"
#include "exec/control/aligned.hpp"
#include "exec/lowered/lowered.hpp"
#include "exec/lowering/fuse.hpp"
#include "exec/lowering/opcode.hpp"
#include "exec/operations/table.hpp"
#include "ptx/syntax/module.hpp"

namespace emulator {

// Where the symbols of a program are.
struct Layout {
  std::function<uint64_t(const ptx::Variable &)> global_address;
  std::map<const ptx::Variable *, uint32_t> shared_offset;
  std::map<const ptx::Variable *, uint32_t> frame_offset;   // of .local and .param variables, in their frame
  std::map<const ptx::Function *, uint32_t> function_index; // into Program::functions
  const ptx::Module *module = nullptr;
};

class Lowering {
public:
  Lowering(const ptx::Body &body, uint32_t function_index, const Layout &layout, ValueTable &values,
           Program &program);

  // Throws Unsupported.
  LoweredFunction lower();
  void fuse() { fused_ = find_fused_products(body_); }
  // Asynchronous operations will be done after they are issued: what waits for them does something.
  void defer() { deferred_ = true; }
  // Fences do something.
  void check() { checked_ = true; }
  // Results will be looked at.
  void watch_numbers() { watches_numbers_ = true; }
  // Undefined bits will be followed.
  void watch_undefined() { watches_undefined_ = true; }
  // Branch tables of the function, as positions of the body.
  const std::vector<std::vector<uint32_t>> &tables() const { return tables_; }

private:
  using Operand = ptx::Operand;
  using Kind = ptx::Operand::Kind;

  // Emitting
  Lowered &emit(Handler handler);
  Lowered &emit_list(Handler handler, std::vector<uint32_t> rows);
  Lowered &emit(std::string_view form, const std::vector<uint32_t> &sources, uint32_t destination);
  const Operation &operation(const std::string &form) const;
  void refer(Lowered &to, Field field, uint32_t value, bool defines);
  void apply_guard(Lowered &to);
  void apply_rounding(Lowered &to, Rounding rounding); // after the guard
  void skip_unless_guarded(); // for what cannot be guarded lane by lane: a branch around it
  [[noreturn]] void unsupported(const std::string &why = {}) const;

  // Operands
  const Operand &operand(size_t number) const;
  size_t operand_count() const { return instruction_->operand_count; }
  const Operand &element(const Operand &list, size_t number) const {
    return body_.operands[list.index + number];
  }
  uint32_t variable_of(uint32_t reg) const { return first_register_ + reg; }
  uint32_t source(const Operand &operand, ptx::Type type);
  uint32_t special_source(std::string_view name, ptx::Type type);
  uint32_t address_source(const Operand &operand, uint32_t lane_bytes);
  uint64_t immediate_bits(const Operand &operand, ptx::Type type) const;
  uint32_t resized(uint32_t value, ptx::Type from, ptx::Type to);
  // The value an instruction writes; `finish` moves it into a register of another width where there is one.
  uint32_t destination(const Operand &operand, ptx::Type type);
  void finish_destinations();
  uint32_t carry();
  // Where a .local or .param variable lies in its frame (a kernel's parameters: in the parameter buffer).
  uint32_t frame_offset(const ptx::Variable &variable) const;
  bool is_kernel_parameter(const ptx::Variable &variable) const;

  // Families
  struct AccessForm {
    ptx::Space space = ptx::Space::generic;
    uint32_t elements = 1;
    ptx::Type type = ptx::Type::none;
    bool cluster = false; // .shared::cluster: perhaps of another block
    uint8_t order = 0;    // bits of Order: volatile, relaxed, acquire, release
    bool system = false;  // .sys: with the host
    std::vector<std::string_view> rest;
  };
  void instruction();
  void arithmetic(Opcode &opcode);
  void move(Opcode &opcode);
  void move_vector(const Opcode &opcode, uint32_t elements);
  void compare(Opcode &opcode);
  void select_by_sign(Opcode &opcode);
  void set(Opcode &opcode);
  void look_up(Opcode &opcode);
  void convert(Opcode &opcode);
  std::vector<uint32_t> two_of_four(const std::string &form, const Operation &found);
  void convert_address(Opcode &opcode);
  void load(Opcode &opcode);
  void store(Opcode &opcode);
  void atomic(Opcode &opcode);
  void lanes(Opcode &opcode);
  void move_matrix(Opcode &opcode);
  void multiply_matrices(Opcode &opcode);
  void warp_matrix(Opcode &opcode);
  void barrier(Opcode &opcode);
  void branch(Opcode &opcode);
  void call(Opcode &opcode);
  void control(Opcode &opcode);
  void copy_asynchronously(Opcode &opcode);
  void copy_bulk(Opcode &opcode, bool reduces);
  void copy_tensor(Opcode &opcode, bool reduces);
  void change_tensor_map(Opcode &opcode);
  void clear_shared(Opcode &opcode);
  void store_asynchronously(Opcode &opcode);
  void mbarrier(Opcode &opcode);
  void cluster(Opcode &opcode);
  bool names_first_of_pair(const Opcode &opcode);
  void control_launches(Opcode &opcode);
  void tensor_core(Opcode &opcode);
  void manage_tensor_memory(Opcode &opcode);
  void move_tensor_memory(Opcode &opcode);
  void copy_to_tensor_memory(Opcode &opcode);
  void multiply_in_tensor_memory(Opcode &opcode);
  uint32_t tensor_row(const Operand &memory, int32_t &offset);
  bool take_pair(Opcode &opcode);
  void sample_texture(Opcode &opcode);
  void query_image(Opcode &opcode);
  void access_surface(Opcode &opcode);
  void test_type(Opcode &opcode);
  uint32_t image_handle(const Operand &operand);
  std::vector<uint32_t> image_operands(const Operand &memory, ImageForm &form);
  void put_coordinates(const Operand &list, const ImageForm &form, std::vector<uint32_t> &rows);
  Lowered &emit_image(Handler handler, const ImageForm &form, std::vector<uint32_t> rows);
  void nothing();
  void need_whole_warp(control::Aligned name); // before what follows
  void fence(bool among_threads_of_block);
  void tell_asynchronous(Handler handler, int64_t immediate = 0, bool checked = false);
  bool tell_of_groups(Opcode &opcode, Track track);
  uint32_t group_count() const;
  void wait_for_products();
  void create_policy(Opcode &opcode);
  void test_space(Opcode &opcode);
  void stack(Opcode &opcode);
  void fused(const FusedProduct &fused);
  void move_wide();
  void atomic_wide(const AccessForm &form, std::string_view name);
  std::pair<uint32_t, uint32_t> halves(const Operand &operand);
  void emit_product(const MatrixForm &form, const char *name);
  void multiply_four(Opcode &opcode, MatrixForm &form);
  void take_selector(MatrixForm &form);
  void multiply_of_warpgroup(Opcode &opcode);
  void move_fragment(Opcode &opcode);
  std::vector<uint32_t> fragment_rows(const Operand &list, const Fragment &fragment, ptx::Type type,
                                      bool defines);
  uint32_t combined(uint32_t predicate, std::string_view boolean, const Operand &with, bool inverted);
  uint32_t address_row(const Operand &memory, ptx::Space &space, int64_t &offset, bool &wide);
  uint32_t generic_row(const Operand &memory, ptx::Space space);
  uint32_t generic_of_shared(uint32_t row, int64_t offset, bool wide);
  AccessForm access_form(Opcode &opcode);
  uint32_t access_row(const Operand &memory, const AccessForm &form, ptx::Space &space, int64_t &offset,
                      bool &wide);
  void atomic_vector(const AccessForm &form, const Operation &found, size_t first);
  std::vector<uint32_t> tests(Opcode opcode);
  std::vector<ParameterBytes> parameter_bytes(const Operand &list);

  const ptx::Body &body_;
  uint32_t function_index_;
  const Layout &layout_;
  ValueTable &values_;
  Program &program_;
  uint32_t first_register_;
  LoweredFunction result_;
  std::vector<std::vector<uint32_t>> tables_;
  const ptx::Instruction *instruction_ = nullptr;
  InstructionClass instruction_class_ = InstructionClass::other;
  uint32_t position_ = 0;
  struct Unfinished {
    uint32_t value, reg;
    ptx::Type type;
  };
  std::vector<Unfinished> unfinished_;
  uint32_t carry_ = UINT32_MAX;
  bool deferred_ = false;
  bool checked_ = false;
  bool watches_numbers_ = false;
  bool watches_undefined_ = false;
  std::unordered_map<uint32_t, FusedProduct> fused_;
  // A register of 128 bits is two rows: the lower half is its own value, the upper one is here.
  std::unordered_map<uint32_t, uint32_t> upper_half_;
};

} // namespace emulator
