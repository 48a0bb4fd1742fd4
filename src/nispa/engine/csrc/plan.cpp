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
  explicit Watch(double& sum) : sum_(sum), begun_(std::chrono::steady_clock::now()) {}
  ~Watch() { sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count(); }

 private:
  double& sum_;
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
  return {b.starts.data(), b.column.data(), b.place.data(), layers_[l].weights, b.segments.data(),
          int(b.units.size())};
}

std::unique_ptr<Tape> Plan::tape(int blocks, bool whole) {
  for (auto& old : spare_)
    if (old && old->whole == whole && old->capacity >= blocks) {
      auto found = std::move(old);
      spare_.erase(std::find(spare_.begin(), spare_.end(), nullptr));
      found->blocks = blocks;
      return found;
    }
  auto made = std::make_unique<Tape>();
  made->blocks = made->capacity = blocks;
  made->whole = whole;
  const long kept = whole || convs_ == 0 ? blocks : 1;
  made->input = floats(kept * channels_ * input_.unit());
  for (int l = 0; l < layers(); l++) {
    const bool every = whole || l + 1 >= convs_;  // linear layers take all blocks at once
    made->maps.push_back(floats((every ? blocks : 1) * map_size(l)));
    made->winners.push_back(whole && layers_[l].pool == 2
                                ? bytes(long(blocks) * layers_[l].targets * out_[l].height * out_[l].width * kLanes)
                                : nullptr);
  }
  return made;
}

void Plan::recycle(std::unique_ptr<Tape> tape) {
  std::lock_guard<std::mutex> hold(busy_);
  if (spare_.size() < 4) spare_.push_back(std::move(tape));
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

void Plan::conv_forward(int l, const float* in, float* out, uint8_t* winner, int rows) {
  Watch watch(forward_seconds[l]);
  const LayerData& layer = layers_[l];
  ConvForward a{};
  a.connections = forward_of(l);
  a.units = layer.units.data();
  a.begin = 0, a.end = rows;
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

void Plan::linear_forward(int l, const float* in, float* out, int blocks, int rows) {
  Watch watch(forward_seconds[l]);
  const LayerData& layer = layers_[l];
  const int groups = (blocks + kGroup - 1) / kGroup;
  const auto cuts = cut(layer.starts.data(), 0, rows, std::max(1, 2 * kTasks / groups));
  const int parts = int(cuts.size()) - 1;
  const long in_stride = long(layer.columns) * kLanes, out_stride = long(layer.targets) * kLanes;
  parallel(groups * parts, [&](int task) {
    const int group = task / parts, part = task % parts;
    LinearForward a{};
    a.connections = forward_of(l);
    a.units = layer.units.data();
    a.begin = cuts[part], a.end = cuts[part + 1];
    a.columns = layer.columns;
    a.bias = layer.biases;
    a.input = in + group * kGroup * in_stride, a.input_stride = in_stride;
    a.output = out + group * kGroup * out_stride, a.output_stride = out_stride;
    a.blocks = std::min(kGroup, blocks - group * kGroup);
    a.relu = layer.relu;
    kernels().linear_forward(a);
  });
}

void Plan::total(int l, const float* maps, int blocks, long samples, double* totals) const {
  parallel(layers_[l].targets, [&](int unit) {
    double sum = 0;
    for (int b = 0; b < blocks; b++)
      sum += kernels().total(maps + b * map_size(l) + unit * out_[l].unit(), out_[l],
                             int(std::min<long>(kLanes, samples - long(b) * kLanes)));
    totals[unit] += sum;
  });
}

// Convolutions block by block, so that one block's maps stay in the cache; linear layers over all blocks.
void Plan::run(const Source& source, bool idle, Tape& tape, const std::vector<double*>* totals) {
  const int blocks = tape.blocks;
  auto rows = [&](int l) { return idle ? layers_[l].targets : layers_[l].working; };
  const long input_size = convs_ ? channels_ * input_.unit() : features() * kLanes;
  if (convs_ == 0)
    parallel(blocks, [&](int b) { gather(source, long(b) * kLanes, tape.input.get() + b * input_size); });
  for (int b = 0; b < (convs_ ? blocks : 0); b++) {
    const long kept = tape.whole ? b : 0;
    float* in = tape.input.get() + kept * input_size;
    gather(source, long(b) * kLanes, in);
    for (int l = 0; l < convs_; l++) {
      const long place = l + 1 == convs_ ? b : kept;
      float* out = tape.maps[l].get() + place * map_size(l);
      uint8_t* winner = tape.winners[l] ? tape.winners[l].get() + place * long(layers_[l].targets) *
                                                                       out_[l].height * out_[l].width * kLanes
                                        : nullptr;
      conv_forward(l, in, out, winner, rows(l));
      if (totals) total(l, out, 1, source.count - long(b) * kLanes, (*totals)[l]);
      in = out;
    }
  }
  for (int l = convs_; l < layers(); l++) {
    const float* in = l ? tape.maps[l - 1].get() : tape.input.get();
    linear_forward(l, in, tape.maps[l].get(), blocks, rows(l));
    if (totals && l + 1 < layers()) total(l, tape.maps[l].get(), blocks, source.count, (*totals)[l]);
  }
}

std::unique_ptr<Tape> Plan::forward(const Source& source, bool idle, bool keep, float* logits) {
  std::lock_guard<std::mutex> hold(busy_);
  const int outputs = this->outputs();
  const LayerData& last = layers_.back();
  if (!keep && source.count <= kSmallBatch) {
    for (long i = 0; i < source.count; i++) small_forward(source, i, idle, logits + i * outputs);
    return nullptr;
  }
  auto tape = this->tape(int((source.count + kLanes - 1) / kLanes), keep);
  run(source, idle, *tape, nullptr);
  std::memset(logits, 0, size_t(source.count) * outputs * 4);
  const float* from = tape->maps.back().get();
  for (int r = 0; r < (idle ? last.targets : last.working); r++) {
    const int unit = last.units[r];
    for (long i = 0; i < source.count; i++)
      logits[i * outputs + unit] = from[((i / kLanes) * outputs + unit) * kLanes + i % kLanes];
  }
  if (keep) return tape;
  if (spare_.size() < 4) spare_.push_back(std::move(tape));
  return nullptr;
}

void Plan::sums(const Source& source, const std::vector<double*>& totals) {
  std::lock_guard<std::mutex> hold(busy_);
  auto tape = this->tape(int((source.count + kLanes - 1) / kLanes), false);
  run(source, true, *tape, &totals);
  if (spare_.size() < 4) spare_.push_back(std::move(tape));
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
void Plan::small_forward(const Source& source, long sample, int idle, float* logits) {
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
    const int rows = idle ? layer.targets : layer.working;
    const auto cuts = cut(layer.starts.data(), 0, rows, layer.index.size() * layer.kernel * layer.kernel > 2000 ? kTasks : 1);
    float* out = l + 1 == layers() ? logits : small_[l + 1].get();
    if (l + 1 == layers()) std::memset(logits, 0, size_t(layer.targets) * 4);
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
void Plan::prepare_backward() {
  if (ready_) return;
  for (int l = 0; l < layers(); l++) {
    const LayerData& a = layers_[l];
    std::vector<char> needs(a.targets, 0);
    const long area = l == 0 ? 1 : a.columns / layers_[l - 1].targets;
    for (int r = 0; r < a.working; r++) {
      bool any = r >= a.frozen;
      for (int k = a.starts[r]; !any && l > 0 && k < a.starts[r + 1]; k++) any = needs_[l - 1][a.index[k] / area];
      needs[a.units[r]] = any;
    }
    Back back;
    if (l > 0) {
      std::vector<int32_t> row_of(a.columns, -1);
      for (int c = 0; c < a.columns; c++)
        if (needs_[l - 1][c / area]) {
          row_of[c] = int(back.units.size());
          back.units.push_back(c);
        }
      back.starts.assign(back.units.size() + 1, 0);
      // Targets in ascending order of their unit number, whatever the rows' order: the sums do not depend on it.
      std::vector<int32_t> row(a.targets);
      for (int r = 0; r < a.targets; r++) row[a.units[r]] = r;
      auto each = [&](auto&& visit) {
        for (int u = 0; u < a.targets; u++)
          if (needs[u])
            for (int k = a.starts[row[u]]; k < a.starts[row[u] + 1]; k++)
              if (row_of[a.index[k]] >= 0) visit(u, k, row_of[a.index[k]]);
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
      if (!a.conv) back.segments = segments(back.starts, back.column, a.targets);
    }
    std::vector<int32_t> needed;
    for (int u = 0; u < a.targets; u++)
      if (needs[u]) needed.push_back(u);
    needs_.push_back(std::move(needs));
    needed_.push_back(std::move(needed));
    back_.push_back(std::move(back));
    Floats gradient, pooled, weight_sums, bias_sums;
    if (a.conv) {
      const Plane g{in_[l].height, in_[l].width, a.kernel / 2};
      gradient = floats(a.targets * g.unit());
      if (a.pool == 2 && l + 1 < convs_) pooled = floats(long(a.targets) * out_[l].height * out_[l].width * kLanes);
      const long live = a.starts[a.working] - a.starts[a.frozen];
      weight_sums = floats(live * a.kernel * a.kernel * kLanes);
      bias_sums = floats(long(a.working - a.frozen) * kLanes);
    }
    gradient_.push_back(std::move(gradient));
    pooled_.push_back(std::move(pooled));
    weight_sums_.push_back(std::move(weight_sums));
    bias_sums_.push_back(std::move(bias_sums));
    gradient_size_.push_back(0);
  }
  ready_ = true;
}

void Plan::backward(const Tape& tape, long count, const float* logits_gradient, const std::vector<float*>& weights,
                    const std::vector<float*>& biases) {
  std::lock_guard<std::mutex> hold(busy_);
  prepare_backward();
  const int blocks = tape.blocks, last = layers() - 1, outputs = this->outputs();
  for (int l = std::max(convs_ - 1, 0); l <= last; l++) {  // gradients that hold all blocks
    const bool of_conv = l < convs_;
    const long unit = of_conv ? long(out_[l].height) * out_[l].width : 1;
    const long size = blocks * layers_[l].targets * unit * kLanes;
    Floats& place = of_conv ? pooled_[l] : gradient_[l];
    if (gradient_size_[l] < size) {
      place = floats(size);
      gradient_size_[l] = size;
    }
  }
  float* top = gradient_[last].get();
  for (int b = 0; b < blocks; b++)
    for (int u : needed_[last])
      for (int lane = 0; lane < kLanes; lane++) {
        const long i = long(b) * kLanes + lane;
        top[(long(b) * outputs + u) * kLanes + lane] = i < count ? logits_gradient[i * outputs + u] : 0.0f;
      }
  for (int l = last; l >= convs_; l--)
    linear_backward(l, tape, gradient_[l].get(),
                    l == 0 ? nullptr : (l > convs_ ? gradient_[l - 1] : pooled_[l - 1]).get(), weights[l], biases[l]);
  if (convs_ == 0) return;
  for (int l = 0; l < convs_; l++) {
    const LayerData& a = layers_[l];
    const long live = a.starts[a.working] - a.starts[a.frozen];
    std::memset(weight_sums_[l].get(), 0, size_t(live) * a.kernel * a.kernel * kLanes * 4);
    std::memset(bias_sums_[l].get(), 0, size_t(a.working - a.frozen) * kLanes * 4);
  }
  for (int b = 0; b < blocks; b++) conv_backward(b, tape);
  for (int l = 0; l < convs_; l++) {
    const LayerData& a = layers_[l];
    const long live = a.starts[a.working] - a.starts[a.frozen];
    kernels().reduce(weight_sums_[l].get(), weights[l], live * a.kernel * a.kernel);
    kernels().reduce(bias_sums_[l].get(), biases[l], a.working - a.frozen);
  }
}

void Plan::linear_backward(int l, const Tape& tape, const float* gradient, float* source_gradient, float* weights,
                           float* biases) {
  Watch watch(backward_seconds[l]);
  const LayerData& layer = layers_[l];
  const int blocks = tape.blocks, groups = (blocks + kGroup - 1) / kGroup;
  const float* in = l ? tape.maps[l - 1].get() : tape.input.get();
  const long in_stride = long(layer.columns) * kLanes, out_stride = long(layer.targets) * kLanes;
  const auto cuts = cut(layer.starts.data(), layer.frozen, layer.working, 2 * kTasks);
  const int weight_tasks = int(cuts.size()) - 1;
  std::vector<int> source_cuts{0};
  if (source_gradient && !back_[l].units.empty())
    source_cuts = cut(back_[l].starts.data(), 0, int(back_[l].units.size()), std::max(1, 2 * kTasks / groups));
  const int source_parts = int(source_cuts.size()) - 1;
  parallel(weight_tasks + groups * source_parts, [&](int task) {
    if (task < weight_tasks) {
      LinearWeightGradient a{};
      a.connections = forward_of(l);
      a.units = layer.units.data();
      a.begin = cuts[task], a.end = cuts[task + 1];
      a.columns = layer.columns;
      a.input_stride = in_stride, a.gradient_stride = out_stride;
      a.weights = weights + (layer.starts[a.begin] - layer.starts[layer.frozen]);
      a.biases = biases + (a.begin - layer.frozen);
      std::memset(a.weights, 0, size_t(layer.starts[a.end] - layer.starts[a.begin]) * 4);
      std::memset(a.biases, 0, size_t(a.end - a.begin) * 4);
      for (int block = 0; block < blocks; block += kWeightGroup) {
        a.input = in + block * in_stride;
        a.gradient = gradient + block * out_stride;
        a.blocks = std::min(kWeightGroup, blocks - block);
        kernels().linear_weight_gradient(a);
      }
      return;
    }
    const int group = (task - weight_tasks) / source_parts, part = (task - weight_tasks) % source_parts;
    LinearForward a{};
    a.connections = backward_of(l);
    a.units = back_[l].units.data();
    a.begin = source_cuts[part], a.end = source_cuts[part + 1];
    a.columns = layer.targets;
    a.input = gradient + group * kGroup * out_stride, a.input_stride = out_stride;
    a.output = source_gradient + group * kGroup * in_stride, a.output_stride = in_stride;
    a.gate = in + group * kGroup * in_stride, a.gate_stride = in_stride;
    a.blocks = std::min(kGroup, blocks - group * kGroup);
    kernels().linear_forward(a);
  });
}

void Plan::conv_backward(int b, const Tape& tape) {
  for (int l = convs_ - 1; l >= 0; l--) {
    Watch watch(backward_seconds[l]);
    const LayerData& layer = layers_[l];
    const Plane full{in_[l].height, in_[l].width, layer.kernel / 2};
    const Plane packed{out_[l].height, out_[l].width, 0};
    const bool top = l + 1 == convs_;
    if (layer.pool == 2 || top) {  // bring the gradient of the pooled or flattened map into the full one
      const float* from = pooled_[l].get() + (top ? b * layer.targets * packed.unit() : 0);
      parallel(int(needed_[l].size()), [&](int i) {
        const int unit = needed_[l][i];
        const float* pooled = from + unit * packed.unit();
        float* to = gradient_[l].get() + unit * full.unit();
        if (layer.pool == 2) {
          const long area = long(packed.height) * packed.width * kLanes;
          kernels().unpool(pooled, packed, tape.winners[l].get() + (long(b) * layer.targets + unit) * area, to, full);
        } else {
          for (int y = 0; y < full.height; y++)
            std::memcpy(to + full.first() + y * full.row(), pooled + y * packed.row(), size_t(packed.row()) * 4);
        }
      });
    }
    const float* in = l ? tape.maps[l - 1].get() + b * map_size(l - 1)
                        : tape.input.get() + b * channels_ * input_.unit();
    const auto cuts = cut(layer.starts.data(), layer.frozen, layer.working, kTasks);
    const int weight_tasks = int(cuts.size()) - 1;
    const int source_tasks = l > 0 && !back_[l].units.empty() ? (full.height + 1) / 2 : 0;
    parallel(weight_tasks + source_tasks, [&](int task) {
      if (task < weight_tasks) {
        ConvWeightGradient a{};
        a.connections = forward_of(l);
        a.units = layer.units.data();
        a.begin = cuts[task], a.end = cuts[task + 1];
        a.input = in, a.in = in_[l];
        a.gradient = gradient_[l].get(), a.out = full;
        const long before = layer.starts[a.begin] - layer.starts[layer.frozen];
        a.sums = weight_sums_[l].get() + before * layer.kernel * layer.kernel * kLanes;
        a.bias_sums = bias_sums_[l].get() + long(a.begin - layer.frozen) * kLanes;
        a.kernel = layer.kernel;
        const int band = full.height <= 16 ? full.height : 8;
        for (a.y = 0; a.y < full.height; a.y += band) {
          a.rows = std::min(band, full.height - a.y);
          kernels().conv_weight_gradient(a);
        }
        return;
      }
      ConvForward a{};
      a.connections = backward_of(l);
      a.units = back_[l].units.data();
      a.begin = 0, a.end = int(back_[l].units.size());
      a.input = gradient_[l].get(), a.in = full;
      const bool pooled = layers_[l - 1].pool == 2;
      a.output = pooled ? pooled_[l - 1].get() : gradient_[l - 1].get();
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
