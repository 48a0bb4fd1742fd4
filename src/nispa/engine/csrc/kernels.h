// The kernels of one instruction set, behind one table. kernels.inl has the code and the reasons.
#pragma once
#include <cstdint>

namespace nispa {

// Activations lie as [block][unit][row][column][16]: sixteen samples innermost, so that one vector holds one
// unit's value at one position for sixteen samples (docs/performance.md).
constexpr int kLanes = 16;

struct Connections {      // rows of live connections into one layer, or their transpose
  const int32_t* starts;  // [rows + 1]
  const int32_t* column;  // [live]: source unit of a convolution, source column of a linear layer; ascending
  const int32_t* place;   // [live]: where the weight lies in `weights`; null: where the connection lies
  const float* weights;   // [live][kernel * kernel]
  const int32_t* segments;  // linear forward: [columns / kChunk, rounded up, + 1][rows]: where a row enters each chunk
  int rows;
};
constexpr int kChunk = 32;  // columns

struct Plane {      // the geometry of one layer's maps in memory
  int height, width;
  int border;       // zeros around each map
  long row() const { return long(width + 2 * border) * kLanes; }
  long unit() const { return (height + 2 * border) * row(); }
  long first() const { return border * row() + border * kLanes; }  // offset of pixel (0, 0)
};

struct ConvForward {        // one block, output rows [y, y + rows)
  Connections connections;
  const int32_t* units;     // per row: where its output goes
  int begin, end;           // rows of `connections` to compute
  const float* bias;        // per row; null: zero
  const float* input;       // one block
  Plane in;
  float* output;
  Plane out;
  uint8_t* winner;          // with pooling: which of the 2x2 pixels was the largest
  const float* gate;        // input gradient: the sources' activations; where they are 0 the gradient is 0
  Plane gate_plane;
  int y, rows;              // of the maps before pooling
  int kernel;
  bool flip;                // input gradient: kernels turned by 180 degrees
  bool relu, pool;
};

struct ConvWeightGradient {  // one block, some rows of connections, image rows [y, y + rows)
  Connections connections;
  const int32_t* units;      // per row of `connections`
  int begin, end;            // rows of `connections`
  const float* input;
  Plane in;
  const float* gradient;
  Plane out;
  float* sums;               // [live from starts[begin]][kernel * kernel][16]: added to
  float* bias_sums;          // [end - begin][16]: added to
  int y, rows;
  int kernel;
};

struct LinearForward {       // some rows, some blocks
  Connections connections;
  const int32_t* units;
  int begin, end;
  int columns;
  const float* bias;
  const float* input;        // [blocks][columns][16]
  long input_stride;
  float* output;             // [blocks][units][16]
  long output_stride;
  int blocks;                // at most kGroup
  bool relu;
};
constexpr int kGroup = 8;      // blocks that a linear layer holds in registers
constexpr int kWideGroup = 16;

struct LinearBackward {      // some source columns, some blocks
  Connections connections;   // the transpose: from source columns to target units
  const int32_t* columns;    // per row of `connections`
  int begin, end;
  bool needed;               // is the sources' gradient wanted, beside the weights'?
  const float* input;        // [blocks][columns][16]
  float* input_gradient;     // laid out likewise; 0 where the input is 0, which is ReLU's gate
  long input_stride;
  const float* gradient;     // [blocks][units][16]
  long gradient_stride;
  int blocks;                // at most kGroup, or kWideGroup where the sources' gradient is not needed
  float* weights;            // added to: the gradients of weights from place `first` on
  int first;
};

struct Gather {                // one block of samples, as they lie in memory, into lanes
  const void* sample[kLanes];  // null: zeros
  bool bytes;
  int channels, height, width;
  const float* scale;          // [channels]
  const float* shift;
  float* output;
  Plane out;
};

struct SmallConv {           // one sample, rows of floats; vectors run along the image's rows
  Connections connections;
  const int32_t* units;
  int begin, end;            // rows of `connections`
  const float* bias;
  const float* input;        // [unit][height + 2 border][stride], borders zero
  long in_unit, in_stride;
  float* output;             // laid out likewise, or packed if out_border is 0
  long out_unit, out_stride;
  int out_border;
  int height, width;
  int kernel;
  bool pool;
  float* scratch;            // two rows of in_stride floats
};

struct SmallLinear {
  Connections connections;
  const int32_t* units;
  int begin, end;
  const float* bias;
  const float* input;
  float* output;
  bool relu;
};

struct Kernels {
  const char* name;
  void (*conv_forward)(const ConvForward&);
  void (*conv_weight_gradient)(const ConvWeightGradient&);
  void (*linear_forward)(const LinearForward&);
  void (*linear_backward)(const LinearBackward&);
  float (*sum)(const float* unit, long stride, int blocks);  // of one unit over blocks
  void (*gather)(const Gather&);
  void (*unpool)(const float* pooled, Plane in, const uint8_t* winner, float* output, Plane out);
  double (*total)(const float* map, Plane plane, int lanes);  // over the first lanes of one unit's map
  void (*reduce)(const float* lanes, float* sums, long count); // [count][16] -> [count]
  void (*small_conv)(const SmallConv&);
  void (*small_linear)(const SmallLinear&);
  void (*adam)(float* value, const float* gradient, float* mean, float* square, long count, float step,
               float root_correction, float decay);
  void (*sgd)(float* value, const float* gradient, float* velocity, long count, float rate, float momentum,
              float decay, bool first);
};

const Kernels& kernels_base();
#if defined(__x86_64__)
const Kernels& kernels_avx2();
const Kernels& kernels_avx512();
#endif
const Kernels& kernels();             // the best that this machine runs, or what NISPA_ISA asks for

}  // namespace nispa
