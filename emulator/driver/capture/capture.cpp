#include "capture.hpp"

#include "entry/entry.hpp"

#include <algorithm>

namespace emulator::driver {
namespace {

std::vector<std::shared_ptr<Capture>> &begun() {
  static auto *only = new std::vector<std::shared_ptr<Capture>>;
  return *only;
}

template <typename Item> void erase(std::vector<Item> &items, const Item &item) {
  items.erase(std::remove(items.begin(), items.end(), item), items.end());
}

} // namespace

void require_mode(CUstreamCaptureMode mode) {
  require(mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED,
          CUDA_ERROR_INVALID_VALUE);
}

const std::vector<std::shared_ptr<Capture>> &captures() { return begun(); }

Capture *capture_of(const Stream &stream) { return static_cast<Capture *>(stream.recorder.get()); }

void Capture::Place::add(const std::vector<GraphDependency> &more) {
  for (const auto &dependency : more) {
    auto same = [&](const auto &other) { return other.node == dependency.node; };
    if (std::none_of(dependencies.begin(), dependencies.end(), same))
      dependencies.push_back(dependency);
  }
}

Capture::Place &Capture::place_of(const Stream &stream) {
  return std::find_if(streams.begin(), streams.end(), [&](auto &item) { return item.first.get() == &stream; })
      ->second;
}

Capture::Place &Capture::join(const std::shared_ptr<Stream> &stream) {
  stream->recorder = shared_from_this();
  driver().recorded.push_back(stream);
  return streams[stream];
}

void Capture::add(Stream &stream, OperationPointer operation) {
  operation->check();
  auto &dependencies = place_of(stream).dependencies;
  auto node = add_node(*graph, as_node(operation, stream.priority), dependencies);
  for (const auto &dependency : dependencies)
    loose.erase(dependency.node.get());
  loose.insert(node.get());
  dependencies = {{node, {}}};
}

CUdeviceptr Capture::allocate(Stream &stream, size_t bytes) {
  auto operation = make_allocate(*stream.context, bytes);
  add(stream, operation);
  return as<AllocateOperation>(*operation).parameters.dptr;
}

void Capture::free(Stream &stream, CUdeviceptr address) { add(stream, make_free(address)); }

void Capture::record(const Stream &stream, Event &event) {
  event.set_recorded(nullptr);
  event.recorder = shared_from_this();
  events[&event] = place_of(stream).dependencies;
}

void Capture::wait(const std::shared_ptr<Stream> &stream, const Event &event) {
  Recorder *recorder = stream->recorder.get();
  if (ended || is_invalid) {
    if (recorder)
      recorder->invalidate();
    fail(ended ? CUDA_ERROR_CAPTURED_EVENT : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  if (recorder && recorder != this) {
    recorder->invalidate();
    invalidate();
    fail(CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  if (stream->legacy) {
    invalidate();
    fail(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  }
  Place &place = recorder ? place_of(*stream) : join(stream);
  place.add(events.at(&event));
}

void Capture::stream_ends(const Stream &stream) {
  if (origin.get() == &stream)
    end_capture(*this, false); // nobody can end it any more
}

std::shared_ptr<Capture> begin_capture(const std::shared_ptr<Stream> &stream,
                                       const std::shared_ptr<Graph> &graph, CUstreamCaptureMode mode) {
  require_mode(mode);
  require(!stream->legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  require(!stream->recorder, CUDA_ERROR_ILLEGAL_STATE);
  auto capture = std::make_shared<Capture>();
  capture->identifier = driver().next_identifier++;
  capture->into_given_graph = graph != nullptr;
  capture->graph = graph ? graph : new_graph();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream;
  ++capture->graph->captures;
  capture->join(stream);
  begun().push_back(capture);
  driver().refuse_call = refuse_while_capturing;
  return capture;
}

std::shared_ptr<Graph> end_capture(Capture &capture, bool keep_graph) {
  auto kept = capture.shared_from_this();
  capture.ended = true;
  for (const auto &item : capture.streams) {
    item.first->recorder = nullptr;
    erase(driver().recorded, item.first);
  }
  capture.streams.clear();
  capture.events.clear();
  capture.origin = nullptr;
  erase(begun(), kept);
  if (begun().empty())
    driver().refuse_call = nullptr;
  auto graph = std::move(capture.graph);
  --graph->captures;
  if (!keep_graph && !capture.into_given_graph)
    destroy_graph(*graph);
  return graph;
}

void end_captures(const Context &context) {
  auto all = begun(); // the list changes
  for (const auto &capture : all)
    if (std::any_of(capture->streams.begin(), capture->streams.end(),
                    [&](const auto &item) { return item.first->context == &context; }))
      end_capture(*capture, false);
}

} // namespace emulator::driver
