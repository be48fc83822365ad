// cuGraphDebugDotPrint: the graph as text for Graphviz.
#include "entry/entry.hpp"
#include "graph.hpp"
#include "module/function.hpp"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>

using namespace emulator::driver;

namespace {

const char *kind_of(const Operation &operation) {
  switch (operation.type()) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
    return "KERNEL";
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    return "MEMCPY";
  case CU_GRAPH_NODE_TYPE_MEMSET:
    return "MEMSET";
  case CU_GRAPH_NODE_TYPE_HOST:
    return "HOST";
  case CU_GRAPH_NODE_TYPE_GRAPH:
    return "GRAPH";
  case CU_GRAPH_NODE_TYPE_EMPTY:
    return "EMPTY";
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    return "EVENT_WAIT";
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    return "EVENT_RECORD";
  case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    return "MEM_ALLOC";
  case CU_GRAPH_NODE_TYPE_MEM_FREE:
    return "MEM_FREE";
  case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
    return "BATCH_MEM_OP";
  default:
    return "UNKNOWN";
  }
}

std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));
std::string format(const char *pattern, ...) {
  char text[256];
  va_list values;
  va_start(values, pattern);
  std::vsnprintf(text, sizeof text, pattern, values);
  va_end(values);
  return text;
}

// A label between double quotes: names come from images of strangers.
std::string quoted(const std::string &text) {
  std::string result;
  for (char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    result += c;
  }
  return result;
}

std::string label(const GraphNode &node, unsigned flags) {
  bool all = flags & CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE;
  auto asked = [&](unsigned flag) { return all || (flags & flag); };
  std::string text = std::to_string(node.number) + "\\n" + kind_of(*node.operation);
  if (asked(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
    text += format("\\nnode handle: %p", static_cast<const void *>(&node));
  if (auto *kernel = dynamic_cast<const KernelOperation *>(node.operation.get())) {
    text += "\\n" + quoted(kernel->function->name);
    const LaunchShape &s = kernel->shape;
    if (asked(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS))
      text += format("\\ngrid %u,%u,%u block %u,%u,%u shared %u", s.grid.x, s.grid.y, s.grid.z, s.block.x,
                     s.block.y, s.block.z, s.dynamic_shared_bytes);
    if (asked(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES))
      text +=
          format("\\ncooperative %d cluster %u,%u,%u", s.cooperative, s.cluster.x, s.cluster.y, s.cluster.z);
    if (asked(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
      text += format("\\nfunction handle: %p", static_cast<const void *>(kernel->handle));
  } else if (auto *copy = dynamic_cast<const CopyNode *>(node.operation.get())) {
    auto letter = [](CUmemorytype type) {
      return type == CU_MEMORYTYPE_HOST ? 'H' : type == CU_MEMORYTYPE_ARRAY ? 'A' : 'D';
    };
    text +=
        format(" %cto%c", letter(copy->description.srcMemoryType), letter(copy->description.dstMemoryType));
    const ShapedCopy &s = copy->sides;
    if (asked(CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS))
      text += format("\\n0x%" PRIx64 " to 0x%" PRIx64 ", %" PRIu64 " x %" PRIu64 " x %" PRIu64 " bytes",
                     s.source.base, s.destination.base, s.shape.width_bytes, s.shape.height, s.shape.depth);
  } else if (auto *fill = dynamic_cast<const FillOperation *>(node.operation.get())) {
    const FillShape &s = fill->shape;
    if (asked(CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS))
      text += format("\\n0x%" PRIx64 " value %u, %zu x %zu of %u bytes", s.destination, s.value, s.width,
                     s.height, s.element_bytes);
  } else if (auto *host = dynamic_cast<const HostOperation *>(node.operation.get())) {
    if (asked(CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS))
      text += format("\\nfunction %p data %p", reinterpret_cast<const void *>(host->function), host->data);
  } else if (auto *event = dynamic_cast<const EventOperation *>(node.operation.get())) {
    if (asked(CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS))
      text += format("\\nevent %p", static_cast<const void *>(event->handle));
  } else if (auto *allocate = dynamic_cast<const AllocateOperation *>(node.operation.get())) {
    if (asked(CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS))
      text += format("\\n%zu bytes at 0x%llx", allocate->parameters.bytesize, allocate->parameters.dptr);
  } else if (auto *free = dynamic_cast<const FreeOperation *>(node.operation.get())) {
    if (asked(CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS))
      text += format("\\n0x%llx", free->address());
  }
  return text;
}

void print(std::FILE *file, const Graph &graph, unsigned flags, bool nested) {
  unsigned long long id = graph.identifier;
  std::fprintf(file, "%s \"graph_%llu\" {\n", nested ? "subgraph" : "digraph", id);
  std::fprintf(file, "label=\"graph_%llu\";\n", id);
  for (const auto &node : graph.nodes)
    std::fprintf(file, "\"graph_%llu_node_%u\" [shape=\"record\" label=\"%s\"];\n", id, node->number,
                 label(*node, flags).c_str());
  for (const auto &node : graph.nodes)
    for (const auto &edge : node->dependencies)
      std::fprintf(file, "\"graph_%llu_node_%u\" -> \"graph_%llu_node_%u\";\n", id, edge.node->number, id,
                   node->number);
  for (const auto &node : graph.nodes)
    if (auto *child = dynamic_cast<const ChildGraphOperation *>(node->operation.get()))
      print(file, *child->graph, flags, true);
  std::fprintf(file, "}\n");
}

} // namespace

CUresult CUDAAPI cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags) {
  return enter("cuGraphDebugDotPrint", Needs::initialised, [&](Call &) {
    auto graph = graph_of(hGraph);
    require(path != nullptr, CUDA_ERROR_INVALID_VALUE);
    std::FILE *file = std::fopen(path, "w");
    require(file != nullptr, CUDA_ERROR_OPERATING_SYSTEM);
    print(file, *graph, flags, false);
    bool written = !std::ferror(file);
    require(std::fclose(file) == 0 && written, CUDA_ERROR_OPERATING_SYSTEM);
  });
}
