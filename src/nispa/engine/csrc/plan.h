// A network laid out for the kernels: what to compute, in which order, in which memory.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels.h"

namespace nispa {

// One layer as Python describes it. Weights and biases stay where they are, in row order; see layers.py.
struct LayerData {
  bool conv = false;
  int targets = 0, columns = 0, kernel = 1, pool = 1;
  bool relu = true;
  std::vector<int32_t> units, starts, index;
  int frozen = 0, working = 0;  // rows before these are frozen, or frozen or working
  float* weights = nullptr;
  float* biases = nullptr;
};

// Samples still in their data set.
struct Source {
  const void* data = nullptr;
  bool bytes = false;
  const int64_t* rows = nullptr;  // null: 0, 1, 2, …
  long count = 0;
  std::vector<float> scale, shift;  // one per channel, or one for all
};

struct Free {
  void operator()(void* p) const;
};
using Floats = std::unique_ptr<float[], Free>;
using Bytes = std::unique_ptr<uint8_t[], Free>;

// What a forward pass leaves for the backward pass.
struct Tape {
  int blocks = 0, capacity = 0;
  bool whole = false;              // keeps the maps of convolutions for every block, not for one a thread
  int slots = 1;                   // how many threads it has room for
  Floats input;
  std::vector<Floats> maps;        // per layer; the last are the logits
  std::vector<Bytes> winners;      // per pooled layer
};

class Plan {
 public:
  // `input`: channels, height, width; a network without convolutions has height and width 1.
  Plan(std::vector<LayerData> layers, int channels, int height, int width);

  int outputs() const { return layers_.back().targets; }
  int layers() const { return int(layers_.size()); }
  int channels() const { return channels_; }
  long features() const { return long(channels_) * height_ * width_; }
  const LayerData& layer(int l) const { return layers_[l]; }
  Plane map(int l) const { return out_[l]; }
  long row_begin(int l) const { return layers_[l].starts[layers_[l].frozen]; }

  // Logits [count][outputs]; idle rows are computed only if `idle`, else their logits are 0. With `keep` the tape
  // that comes back serves `backward`.
  std::unique_ptr<Tape> forward(const Source& source, bool idle, bool keep, float* logits);
  void recycle(std::unique_ptr<Tape> tape);

  // Gradients of all trainable rows (the stores' tails), into zeros; those of idle rows are not touched.
  void backward(const Tape& tape, long count, const float* logits_gradient, const std::vector<float*>& weights,
                const std::vector<float*>& biases);

  // Adds the total activation of every unit of every hidden layer (all rows).
  void sums(const Source& source, const std::vector<double*>& totals);

  // Copies a hidden layer's maps out of a tape: [count][units][height][width].
  void copy_out(const Tape& tape, int l, long count, float* to) const;

  // Seconds per layer spent forward and backward since they were last cleared; for benchmarks.
  std::vector<double> forward_seconds, backward_seconds;

 private:
  struct Back {  // the transpose of a layer's connections: rows are source columns, first those that want a gradient
    std::vector<int32_t> units, starts, column, place;
    int needed = 0;
  };
  struct Range {  // the blocks that one thread takes through the whole chain
    int slot, begin, end;
  };
  struct Slot {   // what a thread needs for the backward pass of one block
    Floats gradient[2];              // of a convolution's maps before pooling, and of those of the one before it
    std::vector<Floats> pooled;      // of its pooled maps
    Floats sums, bias_sums;          // weight gradients of one convolution, lanes apart
  };
  long map_size(int l) const { return layers_[l].targets * out_[l].unit(); }
  long input_size() const { return convs_ ? channels_ * input_.unit() : features() * kLanes; }
  long trainable(int l) const { return layers_[l].starts[layers_[l].working] - row_begin(l); }
  int rows(int l, bool idle) const { return idle ? layers_[l].targets : layers_[l].working; }
  Connections forward_of(int l) const;
  Connections backward_of(int l) const;
  std::vector<Range> ranges(int blocks) const;
  std::unique_ptr<Tape> tape(int blocks, bool whole);
  void keep(std::unique_ptr<Tape> tape);
  void gather(const Source& source, long first_sample, float* to) const;
  void run(const Source& source, bool idle, Tape& tape, float* logits, double* totals);
  void logits_out(const Source& source, bool idle, const Tape& tape, const Range& range, float* logits) const;
  void run_range(const Source& source, bool idle, Tape& tape, const Range& range, double* totals);
  void conv_forward(int l, const float* in, float* out, uint8_t* winner, bool idle);
  void linear_forward(int l, const float* in, float* out, int blocks, bool idle);
  void total(int l, const float* maps, int blocks, long samples, double* totals) const;
  void small_forward(const Source& source, long sample, bool idle, float* logits);
  void prepare_backward(int slots);
  void linear_backward(int l, const Tape& tape, float* weights, float* biases);
  void conv_backward(int b, const Tape& tape, Slot& slot);

  std::vector<LayerData> layers_;
  int channels_, height_, width_;
  std::vector<std::vector<int32_t>> segments_;  // of linear layers (kernels.h)
  std::vector<Plane> in_, out_;   // per layer: its input maps, its output maps (after pooling)
  Plane input_;
  int convs_ = 0;                 // how many layers at the front are convolutions
  std::mutex busy_;
  std::vector<std::unique_ptr<Tape>> spare_;
  // For the backward pass, made when first needed.
  std::vector<std::vector<char>> needs_;   // per layer and unit: does the loss's gradient have to reach it?
  std::vector<std::vector<int32_t>> needed_;
  std::vector<Back> back_;
  std::vector<Slot> slots_;
  std::vector<Floats> top_;       // per layer from the last convolution on: the gradient of all blocks' outputs
  int top_blocks_ = 0;
  std::vector<Floats> block_sums_;  // per convolution: [block][weights and biases], added up in this order
  // For single samples.
  std::vector<Floats> small_;
};

}  // namespace nispa
