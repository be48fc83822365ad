// tex, tld4, txq, suld, sust, sured, suq, istypep.
#include "exec/textures/textures.hpp"
#include "exec/copies/asynchronous.hpp"
#include "exec/lowering/lowering.hpp"

namespace emulator {

using ptx::Type;

namespace {

struct GeometryName {
  std::string_view name;
  Geometry geometry;
};
constexpr GeometryName geometry_names[] = {
    {"1d", Geometry::one},           {"2d", Geometry::two},        {"3d", Geometry::three},
    {"a1d", Geometry::one_array},    {"a2d", Geometry::two_array}, {"cube", Geometry::cube},
    {"acube", Geometry::cube_array},
};

struct QueryName {
  std::string_view name;
  ImageQuery query;
};
constexpr QueryName query_names[] = {
    {"width", ImageQuery::width},
    {"height", ImageQuery::height},
    {"depth", ImageQuery::depth},
    {"channel_data_type", ImageQuery::channel_data_type},
    {"channel_order", ImageQuery::channel_order},
    {"normalized_coords", ImageQuery::normalised_coordinates},
    {"array_size", ImageQuery::array_size},
    {"num_mipmap_levels", ImageQuery::levels},
    {"num_samples", ImageQuery::samples},
    {"memory_layout", ImageQuery::memory_layout},
    {"filter_mode", ImageQuery::filter_mode},
    {"force_unnormalized_coords", ImageQuery::force_unnormalised},
    {"addr_mode_0", ImageQuery::address_mode_0},
    {"addr_mode_1", ImageQuery::address_mode_1},
    {"addr_mode_2", ImageQuery::address_mode_2},
};

bool take_geometry(Opcode &opcode, Geometry &geometry) {
  for (const GeometryName &entry : geometry_names)
    if (opcode.remove(entry.name)) {
      geometry = entry.geometry;
      return true;
    }
  return false;
}

// A vector's elements fill up to four places with three coordinates, or with a layer and then coordinates.
constexpr uint32_t most_coordinates(Geometry geometry) {
  return dimensions_of(geometry) + (is_array(geometry) ? 1 : 0);
}

} // namespace

// Texture and surface variables are their addresses.
uint32_t Lowering::image_handle(const Operand &operand) {
  if (operand.kind == Kind::symbol) {
    const ptx::Variable *variable = body_.symbols[operand.index].variable;
    if (!variable || variable->opaque == ptx::Opaque::none || variable->space != ptx::Space::global)
      unsupported("of what is no texture or surface variable");
  } else if (operand.kind != Kind::reg || ptx::size_bytes(body_.registers[operand.index]) != 8) {
    unsupported("of what is no handle");
  }
  return source(operand, Type::u64);
}

std::vector<uint32_t> Lowering::image_operands(const Operand &memory, ImageForm &form) {
  std::vector<uint32_t> rows(textures::places, UINT32_MAX);
  if (memory.kind != Kind::memory || memory.base != Kind::vector || memory.count < 2)
    unsupported("with these operands");
  if (memory.count > 2)
    unsupported("with a sampler of its own");
  rows[textures::handle] = image_handle(element(memory, 0));
  put_coordinates(element(memory, 1), form, rows);
  return rows;
}

void Lowering::put_coordinates(const Operand &list, const ImageForm &form, std::vector<uint32_t> &rows) {
  bool vector = list.kind == Kind::vector;
  uint32_t count = vector ? list.count : 1, wanted = most_coordinates(form.geometry);
  if (count < wanted)
    unsupported("with " + std::to_string(count) + " coordinates");
  uint32_t next = 0;
  auto one = [&](Type type) {
    const Operand &each = vector ? element(list, next) : list;
    ++next;
    return source(each, type);
  };
  if (is_array(form.geometry))
    rows[textures::layer] = one(Type::u32);
  for (uint32_t d = 0; d < dimensions_of(form.geometry); ++d)
    rows[textures::coordinate + d] = one(form.integers ? Type::s32 : Type::f32);
}

Lowered &Lowering::emit_image(Handler handler, const ImageForm &form, std::vector<uint32_t> rows) {
  Lowered &lowered = emit(handler);
  lowered.instruction.immediate = static_cast<int64_t>(program_.images.size());
  program_.images.push_back(form);
  bool stores = handler == textures::store || handler == textures::reduce;
  for (uint32_t place = 0; place < rows.size(); ++place) {
    if (rows[place] == UINT32_MAX)
      continue;
    bool result =
        place == textures::resident || (!stores && place >= textures::value && place < textures::value + 4);
    refer(lowered, Field::list, rows[place], result);
    lowered.references.back().uses = true; // lanes that are not there keep what they have
  }
  lowered.list = std::move(rows);
  lowered.counted = 1;
  apply_guard(lowered);
  return lowered;
}

void Lowering::sample_texture(Opcode &opcode) {
  ImageForm form;
  bool gathers = opcode.mnemonic == "tld4";
  if (gathers) {
    static constexpr std::string_view channels[] = {"r", "g", "b", "a"};
    bool found = false;
    for (uint8_t c = 0; c < 4 && !found; ++c)
      if (opcode.remove(channels[c])) {
        form.channel = c;
        found = true;
      }
    if (!found)
      unsupported();
  } else if (opcode.remove("level")) {
    form.level = LevelKind::given;
  } else if (opcode.remove("grad")) {
    form.level = LevelKind::gradients;
  } else {
    opcode.remove("base");
  }
  if (!take_geometry(opcode, form.geometry) || opcode.modifiers.size() != 3)
    unsupported();
  Type type = ptx::type_from_name(opcode.modifiers[1]), of = ptx::type_from_name(opcode.modifiers[2]);
  uint32_t elements = opcode.modifiers[0] == "v4" ? 4 : opcode.modifiers[0] == "v2" ? 2 : 0;
  bool known = (elements == 4 && (type == Type::f32 || type == Type::s32 || type == Type::u32 ||
                                  (type == Type::f16 && !gathers))) ||
               (elements == 2 && type == Type::f16x2 && !gathers);
  bool flat = form.geometry == Geometry::one || form.geometry == Geometry::three ||
              form.geometry == Geometry::one_array;
  if (!known || (of != Type::f32 && (of != Type::s32 || is_cube(form.geometry) || gathers)) ||
      (gathers && flat))
    unsupported();
  form.type = type;
  form.integers = of == Type::s32;
  form.elements = static_cast<uint8_t>(elements);

  std::vector<uint32_t> rows = image_operands(operand(1), form);
  size_t next = 2;
  uint32_t dimensions = dimensions_of(form.geometry);
  auto components = [&](uint32_t place, Type kind) {
    const Operand &list = operand(next++);
    bool vector = list.kind == Kind::vector;
    if ((vector ? list.count : 1) < dimensions)
      unsupported("with a vector of " + std::to_string(list.count) + " elements");
    for (uint32_t d = 0; d < dimensions; ++d)
      rows[place + d] = source(vector ? element(list, d) : list, kind);
  };
  if (form.level == LevelKind::given) {
    // With integer coordinates the level is an integer as well.
    uint32_t row = source(operand(next++), form.integers ? Type::s32 : Type::f32);
    if (form.integers) {
      uint32_t converted = values_.variable(row_bytes_of(Type::f32));
      emit("cvt.f32.s32", {row}, converted);
      row = converted;
    }
    rows[textures::level] = row;
  } else if (form.level == LevelKind::gradients) {
    components(textures::change_x, Type::f32);
    components(textures::change_y, Type::f32);
  }
  if (operand_count() > next && !is_cube(form.geometry) &&
      (operand(next).kind == Kind::vector || dimensions == 1))
    components(textures::offset, Type::s32);
  if (operand_count() > next)
    unsupported("with a value to compare depths with");

  const Operand &to = operand(0);
  const Operand &results = to.kind == Kind::pair ? element(to, 0) : to;
  if (results.kind != Kind::vector || results.count != elements)
    unsupported("into a list of another length");
  for (uint32_t e = 0; e < elements; ++e)
    if (element(results, e).kind != Kind::sink)
      rows[textures::value + e] = destination(element(results, e), type);
  if (to.kind == Kind::pair)
    rows[textures::resident] = destination(element(to, 1), Type::pred);
  emit_image(gathers ? textures::gather : textures::sample, form, std::move(rows));
  finish_destinations();
}

void Lowering::query_image(Opcode &opcode) {
  ImageForm form;
  form.of_surface = opcode.mnemonic == "suq";
  bool at_level = !form.of_surface && opcode.remove("level");
  opcode.remove("b32");
  bool found = false;
  for (const QueryName &entry : query_names) {
    bool of_sampler = entry.query >= ImageQuery::filter_mode;
    bool of_texture = entry.query == ImageQuery::normalised_coordinates ||
                      entry.query == ImageQuery::levels || entry.query == ImageQuery::samples;
    bool fits = form.of_surface ? !of_sampler && !of_texture : entry.query != ImageQuery::memory_layout;
    if (fits && (!at_level || entry.query <= ImageQuery::depth) && opcode.remove(entry.name)) {
      form.query = entry.query;
      found = true;
      break;
    }
  }
  if (!found || !opcode.modifiers.empty() || operand_count() != (at_level ? 3u : 2u))
    unsupported();
  const Operand &memory = operand(1);
  if (memory.kind != Kind::memory || memory.base == Kind::vector || memory.value != 0)
    unsupported("with these operands");
  Operand named = memory;
  named.kind = memory.base;
  std::vector<uint32_t> rows(textures::places, UINT32_MAX);
  rows[textures::handle] = image_handle(named);
  if (at_level)
    rows[textures::level] = source(operand(2), Type::u32);
  rows[textures::value] = destination(operand(0), Type::b32);
  emit_image(textures::query, form, std::move(rows));
  finish_destinations();
}

void Lowering::access_surface(Opcode &opcode) {
  ImageForm form;
  form.integers = true;
  form.of_surface = true;
  bool stores = opcode.mnemonic == "sust", reduces = opcode.mnemonic == "sured";
  form.formatted = opcode.remove("p");
  if (!form.formatted && !opcode.remove("b"))
    unsupported();
  if (opcode.remove("clamp"))
    form.boundary = Boundary::clamp;
  else if (opcode.remove("zero"))
    form.boundary = Boundary::zero;
  else if (!opcode.remove("trap"))
    unsupported();
  if (!take_geometry(opcode, form.geometry) || is_cube(form.geometry))
    unsupported();
  static constexpr std::pair<std::string_view, asynchronous::Operator> operators[] = {
      {"add", asynchronous::Operator::add},     {"min", asynchronous::Operator::minimum},
      {"max", asynchronous::Operator::maximum}, {"and", asynchronous::Operator::bit_and},
      {"or", asynchronous::Operator::bit_or},
  };
  asynchronous::Operator op = asynchronous::Operator::replace;
  form.elements = 1;
  form.type = Type::none;
  for (std::string_view m : opcode.modifiers) {
    bool found = false;
    for (const auto &[name, meaning] : operators)
      if (reduces && m == name)
        op = meaning, found = true;
    if (found || (!reduces && (m == "ca" || m == "cg" || m == "cs" || m == "cv" || m == "wb" || m == "wt")))
      continue;
    if (!reduces && (m == "v2" || m == "v4"))
      form.elements = static_cast<uint8_t>(m[1] - '0');
    else if (form.type != Type::none || (form.type = ptx::type_from_name(m)) == Type::none)
      unsupported();
  }
  uint32_t size = ptx::size_bytes(form.type);
  if (size == 0 || size > 8 || (size < 4 && (reduces || form.formatted)) ||
      (form.formatted && !reduces && size != 4) || reduces != (op != asynchronous::Operator::replace) ||
      size * form.elements > 16 || ptx::is_float(form.type))
    unsupported();
  form.reduction = static_cast<uint8_t>(op);
  if (reduces) {
    program_.communicates = true;
    program_.orders_blocks = true;
  }
  bool writes = stores || reduces;
  std::vector<uint32_t> rows = image_operands(operand(writes ? 0 : 1), form);
  const Operand &data = operand(writes ? 1 : 0);
  bool vector = data.kind == Kind::vector;
  if (operand_count() != 2 || (vector ? data.count : 1) != form.elements)
    unsupported("with a list of another length");
  Type row_type = size == 8 ? Type::b64 : size == 4 ? Type::b32 : size == 2 ? Type::b16 : Type::b8;
  for (uint32_t e = 0; e < form.elements; ++e) {
    const Operand &each = vector ? element(data, e) : data;
    if (writes)
      rows[textures::value + e] = source(each, row_type);
    else if (each.kind != Kind::sink)
      rows[textures::value + e] = destination(each, row_type);
  }
  emit_image(reduces ? textures::reduce : stores ? textures::store : textures::load, form, std::move(rows));
  finish_destinations();
}

void Lowering::test_type(Opcode &opcode) {
  ImageForm form;
  form.opaque = opcode.remove("texref")       ? ptx::Opaque::texture
                : opcode.remove("surfref")    ? ptx::Opaque::surface
                : opcode.remove("samplerref") ? ptx::Opaque::sampler
                                              : ptx::Opaque::none;
  if (form.opaque == ptx::Opaque::none || !opcode.modifiers.empty() || operand_count() != 2)
    unsupported();
  const Operand &tested = operand(1);
  uint32_t result = destination(operand(0), Type::pred);
  std::vector<uint32_t> rows(textures::places, UINT32_MAX);
  if (tested.kind == Kind::symbol) {
    const ptx::Variable *variable = body_.symbols[tested.index].variable;
    bool is = variable && variable->opaque == form.opaque;
    Lowered &known = emit("mov.pred", {values_.constant(is, 0)}, result);
    known.counted = 1;
    apply_guard(known);
    return;
  }
  rows[textures::handle] = source(tested, Type::u64);
  rows[textures::resident] = result;
  emit_image(textures::is_type, form, std::move(rows));
}

} // namespace emulator
