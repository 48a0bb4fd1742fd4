#include "plan.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>

#include "pool.h"

namespace nispa {
namespace {

constexpr int kTasks = 4;        // tasks per parallel region and thread, so that an interrupted thread costs little
constexpr int kSmallBatch = 3;   // up to so many samples go one by one

Floats floats(long count) {  // zeros
  const size_t bytes = (size_t(count) * 4 + 127) / 64 * 64;
  void* p = std::aligned_alloc(64, bytes);
  if (p == nullptr) throw std::bad_alloc();
  std::memset(p, 0, bytes);
  return Floats(static_cast<float*>(p));
}

void clear(float* p, long count) { std::fill_n(p, count, 0.0f); }

// Clears what lies around the first `height` rows and `width` columns of a map.
void clear_around(float* map, const Plane& p, int height, int width) {
  clear(map, p.first());
  const long rest = p.row() - width * kLanes;  // up to the next row's first pixel
  for (int y = 0; rest > 0 && y + 1 < height; y++) clear(map + p.first() + y * p.row() + width * kLanes, rest);
  const long end = p.first() + (height - 1) * p.row() + width * kLanes;
  clear(map + end, p.unit() - end);
}

Bytes bytes(long count) {
  const size_t size = (size_t(count) + 127) / 64 * 64;
  void* p = std::aligned_alloc(64, size);
  if (p == nullptr) throw std::bad_alloc();
  return Bytes(static_cast<uint8_t*>(p));
}

// Cuts rows [begin, end) into parts of about equal work.
std::vector<int> cut(const int32_t* starts, int begin, int end, int parts) {
  std::vector<int> cuts{begin};
  const long from = starts[begin], all = starts[end] - from + (end - begin);
  for (int part = 1; part < parts; part++) {
    const long goal = all * part / parts;
    int row = cuts.back();
    while (row < end && starts[row] - from + (row - begin) < goal) row++;
    if (row > cuts.back()) cuts.push_back(row);
  }
  if (end > cuts.back()) cuts.push_back(end);
  return cuts;
}

// Where every row enters every chunk of columns.
std::vector<int32_t> segments(const std::vector<int32_t>& starts, const std::vector<int32_t>& column, int columns) {
  const size_t rows = starts.size() - 1;
  const int chunks = (columns + kChunk - 1) / kChunk;
  std::vector<int32_t> found(size_t(chunks + 1) * rows);
  for (size_t row = 0; row < rows; row++) {
    int k = starts[row];
    for (int chunk = 0; chunk < chunks; chunk++) {
      while (k < starts[row + 1] && column[k] < chunk * kChunk) k++;
      found[chunk * rows + row] = k;
    }
    found[chunks * rows + row] = starts[row + 1];
  }
  return found;
}

class Watch {  // adds the time until it goes out of scope
 public:
  Watch(double& sum, bool on) : sum_(on ? &sum : nullptr), begun_(std::chrono::steady_clock::now()) {}
  ~Watch() {
    if (sum_) *sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  }

 private:
  double* sum_;
  std::chrono::steady_clock::time_point begun_;
};

void check(bool ok, const std::string& what) {
  if (!ok) throw std::invalid_argument(what);
}

}  // namespace

void Free::operator()(void* p) const { std::free(p); }

Plan::Plan(std::vector<LayerData> layers, int channels, int height, int width)
    : layers_(std::move(layers)), channels_(channels), height_(height), width_(width) {
  check(!layers_.empty() && channels > 0 && height > 0 && width > 0, "an empty network or input");
  int units = channels;
  Plane plane{height, width, 0};
  for (size_t l = 0; l < layers_.size(); l++) {
    LayerData& a = layers_[l];
    const std::string name = "layer " + std::to_string(l) + ": ";
    check(a.targets > 0 && a.columns > 0, name + "no units or no columns");
    if (a.conv) {
      check(convs_ == int(l), name + "a convolution after a linear layer");
      check(a.columns == units, name + "columns are not the units of the layer before");
      check(a.kernel == 1 || a.kernel == 3 || a.kernel == 5, name + "kernel size is not 1, 3 or 5");
      check(a.pool == 1 || a.pool == 2, name + "pooling is not 1 or 2");
      check(a.relu, name + "a convolution without ReLU");
      check(plane.height >= a.pool && plane.width >= a.pool, name + "maps too small for pooling");
      convs_++;
    } else {
      check(long(a.columns) == long(units) * plane.height * plane.width,
            name + "columns are not the outputs of the layer before");
    }
    check(int(a.units.size()) == a.targets && int(a.starts.size()) == a.targets + 1, name + "wrong row arrays");
    check(a.starts.front() == 0 && a.starts.back() == int(a.index.size()), name + "row starts do not fit");
    check(0 <= a.frozen && a.frozen <= a.working && a.working <= a.targets, name + "wrong parts of rows");
    std::vector<char> seen(a.targets, 0);
    for (int r = 0; r < a.targets; r++) {
      check(0 <= a.units[r] && a.units[r] < a.targets && !seen[a.units[r]], name + "units are no permutation");
      seen[a.units[r]] = 1;
      check(a.starts[r] <= a.starts[r + 1] && a.starts[r + 1] <= int(a.index.size()),
            name + "row starts do not ascend");
      for (int k = a.starts[r]; k < a.starts[r + 1]; k++)
        check(0 <= a.index[k] && a.index[k] < a.columns && (k == a.starts[r] || a.index[k - 1] < a.index[k]),
              name + "a row's columns do not ascend inside the layer");
    }
    segments_.push_back(a.conv ? std::vector<int32_t>{} : segments(a.starts, a.index, a.columns));
    in_.push_back({plane.height, plane.width, a.conv ? a.kernel / 2 : 0});
    if (a.conv) plane = {plane.height / a.pool, plane.width / a.pool, 0};
    else plane = {1, 1, 0};
    const bool next_conv = l + 1 < layers_.size() && layers_[l + 1].conv;
    out_.push_back({plane.height, plane.width, next_conv ? layers_[l + 1].kernel / 2 : 0});
    units = a.targets;
  }
  check(!layers_.back().conv, "the last layer is a convolution");
  input_ = in_[0];
  forward_seconds.assign(layers_.size(), 0);
  backward_seconds.assign(layers_.size(), 0);
}

Connections Plan::forward_of(int l) const {
  const LayerData& a = layers_[l];
  return {a.starts.data(), a.index.data(), nullptr, a.weights, segments_[l].data(), a.targets};
}

Connections Plan::backward_of(int l) const {
  const Back& b = back_[l];
  return {b.starts.data(), b.column.data(), b.place.data(), layers_[l].weights, nullptr, int(b.units.size())};
}

// Whole blocks per thread where there are enough of them: then a thread's data stays in its own caches from the input
// to the logits and back. Fewer blocks than threads: the threads share the work inside a block.
std::vector<Plan::Range> Plan::ranges(int blocks) const {
  const int threads = threads_here();
  if (blocks < threads) return {{0, 0, blocks}};
  std::vector<Range> found;
  for (int t = 0; t < threads; t++)
    found.push_back({t, int(long(blocks) * t / threads), int(long(blocks) * (t + 1) / threads)});
  return found;
}

std::unique_ptr<Tape> Plan::tape(int blocks, bool whole) {
  const int slots = threads_here();
  for (auto& old : spare_)
    if (old->whole == whole && old->capacity >= blocks && old->slots >= slots) {
      auto found = std::move(old);
      spare_.erase(spare_.begin() + (&old - spare_.data()));
      found->blocks = blocks;
      return found;
    }
  auto made = std::make_unique<Tape>();
  made->blocks = made->capacity = blocks;
  made->whole = whole;
  made->slots = slots;
  const long kept = whole || convs_ == 0 ? blocks : slots;
  made->input = floats(kept * input_size());
  for (int l = 0; l < layers(); l++) {
    const bool every = whole || l + 1 >= convs_;  // linear layers take all blocks at once
    made->maps.push_back(floats((every ? blocks : slots) * map_size(l)));
    made->winners.push_back(whole && layers_[l].pool == 2
                                ? bytes(long(blocks) * layers_[l].targets * out_[l].height * out_[l].width * kLanes)
                                : nullptr);
  }
  return made;
}

void Plan::keep(std::unique_ptr<Tape> tape) {
  if (spare_.size() >= 4) spare_.erase(spare_.begin());
  spare_.push_back(std::move(tape));
}

void Plan::recycle(std::unique_ptr<Tape> tape) {
  std::lock_guard<std::mutex> hold(busy_);
  keep(std::move(tape));
}

void Plan::gather(const Source& source, long first, float* to) const {
  const size_t size = source.bytes ? 1 : 4;
  Gather a{};
  for (int lane = 0; lane < kLanes; lane++) {
    const long i = first + lane;
    if (i >= source.count) continue;
    const long row = source.rows ? source.rows[i] : i;
    a.sample[lane] = static_cast<const char*>(source.data) + size_t(row) * features() * size;
  }
  a.bytes = source.bytes;
  a.out = input_;
  a.output = to;
  if (convs_ > 0) {
    std::vector<float> scale(channels_), shift(channels_);
    for (int c = 0; c < channels_; c++) {
      scale[c] = source.scale[source.scale.size() == 1 ? 0 : c];
      shift[c] = source.shift[source.shift.size() == 1 ? 0 : c];
    }
    a.channels = channels_, a.height = height_, a.width = width_;
    a.scale = scale.data(), a.shift = shift.data();
    kernels().gather(a);
    return;
  }
  // A vector of features is one long image row per channel of the data.
  const int parts = int(std::max(source.scale.size(), source.shift.size()));
  const int width = int(features() / parts);
  std::vector<float> scale(parts), shift(parts);
  for (int c = 0; c < parts; c++) {
    scale[c] = source.scale[source.scale.size() == 1 ? 0 : c];
    shift[c] = source.shift[source.shift.size() == 1 ? 0 : c];
  }
  a.channels = parts, a.height = 1, a.width = width;
  a.scale = scale.data(), a.shift = shift.data();
  a.out = {1, width, 0};
  kernels().gather(a);
}

void Plan::conv_forward(int l, const float* in, float* out, uint8_t* winner, bool idle) {
  const LayerData& layer = layers_[l];
  ConvForward a{};
  a.connections = forward_of(l);
  a.units = layer.units.data();
  a.begin = 0, a.end = rows(l, idle);
  a.bias = layer.biases;
  a.input = in, a.in = in_[l];
  a.output = out, a.out = out_[l];
  a.winner = winner;
  a.kernel = layer.kernel;
  a.relu = true, a.pool = layer.pool == 2;
  const int height = a.pool ? in_[l].height / 2 * 2 : in_[l].height;
  parallel((height + 1) / 2, [&](int task) {
    ConvForward band = a;
    band.y = 2 * task;
    band.rows = std::min(2, height - band.y);
    kernels().conv_forward(band);
  });
}

void Plan::linear_forward(int l, const float* in, float* out, int blocks, bool idle) {
  const LayerData& layer = layers_[l];
  const auto cuts = cut(layer.starts.data(), 0, rows(l, idle), threads_here() == 1 ? 1 : kTasks * threads_here());
  const long in_stride = long(layer.columns) * kLanes, out_stride = long(layer.targets) * kLanes;
  parallel(int(cuts.size()) - 1, [&](int part) {
    LinearForward a{};
    a.connections = forward_of(l);
    a.units = layer.units.data();
    a.begin = cuts[part], a.end = cuts[part + 1];
    a.columns = layer.columns;
    a.bias = layer.biases;
    a.input_stride = in_stride, a.output_stride = out_stride;
    a.relu = layer.relu;
    for (int b = 0; b < blocks; b += kGroup) {
      a.input = in + b * in_stride;
      a.output = out + b * out_stride;
      a.blocks = std::min(kGroup, blocks - b);
      kernels().linear_forward(a);
    }
  });
}

// Per block and unit, to be added in the order of blocks.
void Plan::total(int l, const float* maps, int blocks, long samples, double* totals) const {
  const int units = layers_[l].targets;
  for (int b = 0; b < blocks; b++)
    for (int unit = 0; unit < units; unit++)
      totals[long(b) * units + unit] = kernels().total(maps + b * map_size(l) + unit * out_[l].unit(), out_[l],
                                                       int(std::min<long>(kLanes, samples - long(b) * kLanes)));
}

// Convolutions block by block, so that one block's maps stay in the cache; linear layers over all blocks of the range.
void Plan::run_range(const Source& source, bool idle, Tape& tape, const Range& range, double* totals) {
  auto totals_of = [&](int l, int b) {  // [layer][block][unit]
    long before = 0;
    for (int k = 0; k < l; k++) before += long(tape.blocks) * layers_[k].targets;
    return totals + before + long(b) * layers_[l].targets;
  };
  for (int b = range.begin; b < range.end; b++) {
    const long kept = tape.whole || convs_ == 0 ? b : range.slot;
    float* in = tape.input.get() + kept * input_size();
    gather(source, long(b) * kLanes, in);
    for (int l = 0; l < convs_; l++) {
      Watch watch(forward_seconds[l], range.slot == 0);
      const long place = l + 1 == convs_ ? b : kept;
      float* out = tape.maps[l].get() + place * map_size(l);
      uint8_t* winner = tape.winners[l] ? tape.winners[l].get() + place * long(layers_[l].targets) *
                                                                       out_[l].height * out_[l].width * kLanes
                                        : nullptr;
      conv_forward(l, in, out, winner, idle);
      if (totals) total(l, out, 1, source.count - long(b) * kLanes, totals_of(l, b));
      in = out;
    }
  }
  const int blocks = range.end - range.begin;
  for (int l = convs_; l < layers(); l++) {
    Watch watch(forward_seconds[l], range.slot == 0);
    const float* in = (l ? tape.maps[l - 1].get() + range.begin * map_size(l - 1)
                         : tape.input.get() + range.begin * input_size());
    float* out = tape.maps[l].get() + range.begin * map_size(l);
    linear_forward(l, in, out, blocks, idle);
    if (totals && l + 1 < layers())
      total(l, out, blocks, source.count - long(range.begin) * kLanes, totals_of(l, range.begin));
  }
}

void Plan::run(const Source& source, bool idle, Tape& tape, float* logits, double* totals) {
  const auto ranges = this->ranges(tape.blocks);
  parallel(int(ranges.size()), [&](int task) {
    run_range(source, idle, tape, ranges[task], totals);
    if (logits) logits_out(source, idle, tape, ranges[task], logits);
  });
}

void Plan::logits_out(const Source& source, bool idle, const Tape& tape, const Range& range, float* logits) const {
  const int outputs = this->outputs(), computed = rows(layers() - 1, idle);
  for (int b = range.begin; b < range.end; b++) {
    const float* from = tape.maps.back().get() + long(b) * outputs * kLanes;
    const long samples = std::min<long>(kLanes, source.count - long(b) * kLanes);
    for (long lane = 0; lane < samples; lane++) {
      float* to = logits + (long(b) * kLanes + lane) * outputs;
      if (computed < outputs) clear(to, outputs);
      for (int r = 0; r < computed; r++) to[layers_.back().units[r]] = from[layers_.back().units[r] * kLanes + lane];
    }
  }
}

std::unique_ptr<Tape> Plan::forward(const Source& source, bool idle, bool keep, float* logits) {
  std::lock_guard<std::mutex> hold(busy_);
  const int outputs = this->outputs();
  if (!keep && source.count <= kSmallBatch) {
    for (long i = 0; i < source.count; i++) small_forward(source, i, idle, logits + i * outputs);
    return nullptr;
  }
  auto tape = this->tape(int((source.count + kLanes - 1) / kLanes), keep);
  run(source, idle, *tape, logits, nullptr);
  if (keep) return tape;
  this->keep(std::move(tape));
  return nullptr;
}

void Plan::sums(const Source& source, const std::vector<double*>& totals) {
  std::lock_guard<std::mutex> hold(busy_);
  const int blocks = int((source.count + kLanes - 1) / kLanes);
  auto tape = this->tape(blocks, false);
  long units = 0;
  for (int l = 0; l + 1 < layers(); l++) units += layers_[l].targets;
  std::vector<double> parts(size_t(blocks) * units);
  run(source, true, *tape, nullptr, parts.data());
  const double* part = parts.data();
  for (int l = 0; l + 1 < layers(); l++)
    for (int b = 0; b < blocks; b++)
      for (int unit = 0; unit < layers_[l].targets; unit++) totals[l][unit] += *part++;
  keep(std::move(tape));
}

void Plan::copy_out(const Tape& tape, int l, long count, float* to) const {
  const Plane p = out_[l];
  const int units = layers_[l].targets;
  const float* maps = tape.maps[l].get();
  for (long i = 0; i < count; i++)
    for (int u = 0; u < units; u++)
      for (int y = 0; y < p.height; y++)
        for (int x = 0; x < p.width; x++)
          *to++ = maps[(i / kLanes) * map_size(l) + u * p.unit() + p.first() + y * p.row() + x * kLanes + i % kLanes];
}

// Few samples: one by one, vectors along the image rows; the same sums in the same order, so the same bits.
void Plan::small_forward(const Source& source, long sample, bool idle, float* logits) {
  auto stride = [](const Plane& p) { return long(p.width + 31) / 32 * 32 + 16; };
  auto unit = [&](const Plane& p) { return (p.height + 2 * p.border) * stride(p); };
  if (small_.empty()) {
    small_.push_back(floats(convs_ ? channels_ * unit(input_) + 64 : features()));
    for (int l = 0; l < layers(); l++)
      small_.push_back(floats(l + 1 < convs_ ? layers_[l].targets * unit(out_[l]) + 64 : map_size(l) / kLanes));
  }
  const long row = source.rows ? source.rows[sample] : sample;
  float* in = small_[0].get();
  const long area = features() / std::max<long>(1, convs_ ? channels_ : long(std::max(source.scale.size(), source.shift.size())));
  for (long i = 0; i < features(); i++) {
    const long at = row * features() + i;
    const float v = source.bytes ? float(static_cast<const uint8_t*>(source.data)[at])
                                 : static_cast<const float*>(source.data)[at];
    const long c = i / area;
    const float s = source.scale[source.scale.size() == 1 ? 0 : c], t = source.shift[source.shift.size() == 1 ? 0 : c];
    if (convs_) {
      const long y = i % area / width_, x = i % width_;
      in[c * unit(input_) + (y + input_.border) * stride(input_) + x + input_.border] = v * s + t;
    } else {
      in[i] = v * s + t;
    }
  }
  for (int l = 0; l < layers(); l++) {
    const LayerData& layer = layers_[l];
    const bool large = long(layer.index.size()) * layer.kernel * layer.kernel > 2000;
    const auto cuts = cut(layer.starts.data(), 0, rows(l, idle), large ? kTasks * threads_here() : 1);
    float* out = l + 1 == layers() ? logits : small_[l + 1].get();
    if (l + 1 == layers()) clear(logits, layer.targets);
    parallel(int(cuts.size()) - 1, [&](int task) {
      if (layer.conv) {
        const bool packed = l + 1 == convs_;
        std::vector<float> scratch(2 * stride(in_[l]) + 32);
        SmallConv a{};
        a.connections = forward_of(l);
        a.units = layer.units.data();
        a.begin = cuts[task], a.end = cuts[task + 1];
        a.bias = layer.biases;
        a.input = in, a.in_unit = unit(in_[l]), a.in_stride = stride(in_[l]);
        a.output = out;
        a.out_border = packed ? 0 : out_[l].border;
        a.out_stride = packed ? out_[l].width : stride(out_[l]);
        a.out_unit = packed ? long(out_[l].height) * out_[l].width : unit(out_[l]);
        a.height = in_[l].height, a.width = in_[l].width;
        a.kernel = layer.kernel, a.pool = layer.pool == 2;
        a.scratch = scratch.data();
        kernels().small_conv(a);
      } else {
        kernels().small_linear({forward_of(l), layer.units.data(), cuts[task], cuts[task + 1], layer.biases, in,
                                out, layer.relu});
      }
    });
    in = out;
  }
}

// Which units want a gradient, and the connections seen from them. A frozen unit wants one only if some unit
// upstream of it can still change, which NISPA never lets happen: frozen is free.
void Plan::prepare_backward(int slots) {
  for (int l = int(back_.size()); l < layers(); l++) {
    const LayerData& a = layers_[l];
    std::vector<char> needs(a.targets, 0);
    const long area = l == 0 ? 1 : a.columns / layers_[l - 1].targets;
    for (int r = 0; r < a.working; r++) {
      bool any = r >= a.frozen;
      for (int k = a.starts[r]; !any && l > 0 && k < a.starts[r + 1]; k++) any = needs_[l - 1][a.index[k] / area];
      needs[a.units[r]] = any;
    }
    // A linear layer's weight gradients, too, are taken column by column.
    Back back;
    std::vector<int32_t> row_of(a.columns, -1);
    auto add_rows = [&](bool wanted) {
      for (int c = 0; c < a.columns; c++)
        if ((l > 0 && needs_[l - 1][c / area]) == wanted) {
          row_of[c] = int(back.units.size());
          back.units.push_back(c);
        }
    };
    add_rows(true);
    back.needed = int(back.units.size());
    if (!a.conv) add_rows(false);
    back.starts.assign(back.units.size() + 1, 0);
    // Targets in ascending order of their unit number, whatever the rows' order: the sums do not depend on it.
    std::vector<int32_t> row(a.targets);
    for (int r = 0; r < a.targets; r++) row[a.units[r]] = r;
    auto each = [&](auto&& visit) {
      for (int u = 0; u < a.targets; u++)
        if (needs[u])
          for (int k = a.starts[row[u]]; k < a.starts[row[u] + 1]; k++) {
            const int r = row_of[a.index[k]];
            if (r >= 0 && (r < back.needed || row[u] >= a.frozen)) visit(u, k, r);
          }
    };
    each([&](int, int, int r) { back.starts[r + 1]++; });
    std::partial_sum(back.starts.begin(), back.starts.end(), back.starts.begin());
    back.column.resize(back.starts.back());
    back.place.resize(back.starts.back());
    std::vector<int32_t> next(back.starts.begin(), back.starts.end() - 1);
    each([&](int u, int k, int r) {
      back.column[next[r]] = u;
      back.place[next[r]++] = k;
    });
    std::vector<int32_t> needed;
    for (int u = 0; u < a.targets; u++)
      if (needs[u]) needed.push_back(u);
    needs_.push_back(std::move(needs));
    needed_.push_back(std::move(needed));
    back_.push_back(std::move(back));
  }
  while (int(slots_.size()) < slots) {
    Slot slot;
    long live = 0, rows = 0, maps[2] = {};
    for (int l = 0; l < convs_; l++) {
      const LayerData& a = layers_[l];
      maps[l % 2] = std::max(maps[l % 2], a.targets * Plane{in_[l].height, in_[l].width, a.kernel / 2}.unit());
      slot.pooled.push_back(a.pool == 2 && l + 1 < convs_
                                ? floats(long(a.targets) * out_[l].height * out_[l].width * kLanes)
                                : nullptr);
      live = std::max(live, trainable(l) * a.kernel * a.kernel);
      rows = std::max(rows, long(a.working - a.frozen));
    }
    for (int i = 0; i < 2; i++) slot.gradient[i] = floats(maps[i]);
    slot.sums = floats(live * kLanes);
    slot.bias_sums = floats(rows * kLanes);
    slots_.push_back(std::move(slot));
  }
}

void Plan::backward(const Tape& tape, long count, const float* logits_gradient, const std::vector<float*>& weights,
                    const std::vector<float*>& biases) {
  std::lock_guard<std::mutex> hold(busy_);
  const int blocks = tape.blocks, last = layers() - 1, outputs = this->outputs();
  if (blocks == 0) {
    for (int l = 0; l <= last; l++) {
      const LayerData& a = layers_[l];
      std::fill_n(weights[l], trainable(l) * a.kernel * a.kernel, 0.0f);
      std::fill_n(biases[l], a.working - a.frozen, 0.0f);
    }
    return;
  }
  const auto ranges = this->ranges(blocks);
  prepare_backward(int(ranges.size()));
  if (top_blocks_ < blocks) {
    top_.clear();
    block_sums_.clear();
    for (int l = 0; l < layers(); l++) {
      const long unit = l < convs_ ? long(out_[l].height) * out_[l].width : 1;
      top_.push_back(l + 1 >= convs_ ? floats(blocks * layers_[l].targets * unit * kLanes) : nullptr);
      const LayerData& a = layers_[l];
      if (l < convs_)
        block_sums_.push_back(floats(blocks * (trainable(l) * a.kernel * a.kernel + a.working - a.frozen)));
    }
    top_blocks_ = blocks;
  }
  parallel(blocks, [&](int b) {
    float* top = top_[last].get() + long(b) * outputs * kLanes;
    for (long i = long(b) * kLanes, lane = 0; lane < kLanes; i++, lane++)
      for (int u : needed_[last]) top[u * kLanes + lane] = i < count ? logits_gradient[i * outputs + u] : 0.0f;
  });
  for (int l = last; l >= convs_; l--) {
    Watch watch(backward_seconds[l], true);
    linear_backward(l, tape, weights[l], biases[l]);
  }
  if (convs_ == 0) return;
  parallel(int(ranges.size()), [&](int task) {
    const Range& range = ranges[task];
    for (int b = range.begin; b < range.end; b++) conv_backward(b, tape, slots_[range.slot]);
  });
  parallel(convs_, [&](int l) {  // sums over blocks, in their order
    const LayerData& a = layers_[l];
    const long live = trainable(l) * a.kernel * a.kernel, rows = a.working - a.frozen;
    clear(weights[l], live);
    clear(biases[l], rows);
    for (int b = 0; b < blocks; b++) {
      const float* sums = block_sums_[l].get() + b * (live + rows);
      for (long i = 0; i < live; i++) weights[l][i] += sums[i];
      for (long i = 0; i < rows; i++) biases[l][i] += sums[live + i];
    }
  });
}

// Threads share the source columns, and take all blocks of theirs: every sum has one owner, who adds the blocks in order.
void Plan::linear_backward(int l, const Tape& tape, float* weights, float* biases) {
  const LayerData& layer = layers_[l];
  const Back& back = back_[l];
  const auto cuts = cut(back.starts.data(), 0, int(back.units.size()), threads_here());
  const int parts = int(cuts.size()) - 1;
  LinearBackward all{};
  all.connections = backward_of(l);
  all.columns = back.units.data();
  all.input_stride = long(layer.columns) * kLanes, all.gradient_stride = long(layer.targets) * kLanes;
  all.weights = weights, all.first = int(row_begin(l));
  parallel(parts + 1, [&](int task) {
    if (task == parts) {
      for (int r = layer.frozen; r < layer.working; r++)
        biases[r - layer.frozen] =
            kernels().sum(top_[l].get() + layer.units[r] * kLanes, all.gradient_stride, tape.blocks);
      return;
    }
    const int middle = std::clamp(back.needed, cuts[task], cuts[task + 1]);
    for (const bool needed : {true, false}) {
      LinearBackward a = all;
      a.begin = needed ? cuts[task] : middle, a.end = needed ? middle : cuts[task + 1];
      a.needed = needed;
      const int group = needed ? kGroup : kWideGroup;
      for (int b = 0; b < tape.blocks && a.begin < a.end; b += group) {
        a.input = (l ? tape.maps[l - 1].get() : tape.input.get()) + b * a.input_stride;
        a.input_gradient = needed ? top_[l - 1].get() + b * a.input_stride : nullptr;
        a.gradient = top_[l].get() + b * a.gradient_stride;
        a.blocks = std::min(group, tape.blocks - b);
        kernels().linear_backward(a);
      }
    }
  });
}

void Plan::conv_backward(int b, const Tape& tape, Slot& slot) {
  for (int l = convs_ - 1; l >= 0; l--) {
    Watch watch(backward_seconds[l], &slot == &slots_[0]);
    const LayerData& layer = layers_[l];
    const Plane full{in_[l].height, in_[l].width, layer.kernel / 2};
    const Plane packed{out_[l].height, out_[l].width, 0};
    const bool top = l + 1 == convs_;
    float* gradient = slot.gradient[l % 2].get();
    for (int unit : needed_[l])  // another convolution's gradient was there, and pooling leaves an odd edge out
      clear_around(gradient + unit * full.unit(), full, packed.height * layer.pool, packed.width * layer.pool);
    if (layer.pool == 2 || top) {  // bring the gradient of the pooled or flattened map into the full one
      const float* from = top ? top_[l].get() + b * layer.targets * packed.unit() : slot.pooled[l].get();
      parallel(int(needed_[l].size()), [&](int i) {
        const int unit = needed_[l][i];
        const float* pooled = from + unit * packed.unit();
        float* to = gradient + unit * full.unit();
        if (layer.pool == 2) {
          const uint8_t* winner = tape.winners[l].get() + (long(b) * layer.targets + unit) * packed.unit();
          kernels().unpool(pooled, packed, winner, to, full);
        } else {
          for (int y = 0; y < full.height; y++)
            std::memcpy(to + full.first() + y * full.row(), pooled + y * packed.row(), size_t(packed.row()) * 4);
        }
      });
    }
    const float* in = l ? tape.maps[l - 1].get() + b * map_size(l - 1) : tape.input.get() + b * input_size();
    const long area = layer.kernel * layer.kernel, rows = layer.working - layer.frozen;
    float* sums = block_sums_[l].get() + b * (trainable(l) * area + rows);
    const auto cuts =
        cut(layer.starts.data(), layer.frozen, layer.working, threads_here() == 1 ? 1 : kTasks * threads_here());
    const int weight_tasks = int(cuts.size()) - 1;
    const int source_tasks = l > 0 && !back_[l].units.empty() ? (full.height + 1) / 2 : 0;
    parallel(weight_tasks + source_tasks, [&](int task) {
      if (task < weight_tasks) {
        ConvWeightGradient a{};
        a.connections = forward_of(l);
        a.units = layer.units.data();
        a.begin = cuts[task], a.end = cuts[task + 1];
        a.input = in, a.in = in_[l];
        a.gradient = gradient, a.out = full;
        const long before = (layer.starts[a.begin] - row_begin(l)) * area, row = a.begin - layer.frozen;
        const long live = (layer.starts[a.end] - layer.starts[a.begin]) * area, count = a.end - a.begin;
        a.sums = slot.sums.get() + before * kLanes;
        a.bias_sums = slot.bias_sums.get() + row * kLanes;
        clear(a.sums, live * kLanes);
        clear(a.bias_sums, count * kLanes);
        a.kernel = layer.kernel;
        const int band = full.height <= 16 ? full.height : 8;
        for (a.y = 0; a.y < full.height; a.y += band) {
          a.rows = std::min(band, full.height - a.y);
          kernels().conv_weight_gradient(a);
        }
        kernels().reduce(a.sums, sums + before, live);
        kernels().reduce(a.bias_sums, sums + trainable(l) * area + row, count);
        return;
      }
      ConvForward a{};
      a.connections = backward_of(l);
      a.units = back_[l].units.data();
      a.begin = 0, a.end = int(back_[l].units.size());
      a.input = gradient, a.in = full;
      const bool pooled = layers_[l - 1].pool == 2;
      a.output = pooled ? slot.pooled[l - 1].get() : slot.gradient[(l - 1) % 2].get();
      a.out = pooled ? Plane{out_[l - 1].height, out_[l - 1].width, 0}
                     : Plane{in_[l - 1].height, in_[l - 1].width, layers_[l - 1].kernel / 2};
      a.gate = tape.maps[l - 1].get() + b * map_size(l - 1), a.gate_plane = out_[l - 1];
      a.kernel = layer.kernel;
      a.flip = true;
      a.y = 2 * (task - weight_tasks);
      a.rows = std::min(2, full.height - a.y);
      kernels().conv_forward(a);
    });
  }
}

}  // namespace nispa
