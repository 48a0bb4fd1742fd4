// The kernels, compiled once per instruction set: NISPA_ISA names the set, LANES how many floats its vectors hold.
//
// Two rules keep all layouts, batch sizes and thread counts at the same bits. Every sum has one owner. And every
// output starts from its bias and adds its live sources in ascending order, inside a source kernel row by kernel
// row, each product by one multiply-add (contracted where the instruction set has it, in scalar code too).
//
// Nothing from the standard library's templates is used here: such code could be shared with files compiled for
// a lesser instruction set.

#include "kernels.h"

namespace nispa {
namespace {

typedef float Vec __attribute__((vector_size(4 * LANES), aligned(4 * LANES), may_alias));
typedef int32_t Ints __attribute__((vector_size(4 * LANES), aligned(4 * LANES), may_alias));
typedef float VecUnaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
constexpr int kParts = kLanes / LANES;  // vectors for sixteen samples
#define INLINE inline __attribute__((always_inline))

typedef uint8_t Sixteen __attribute__((vector_size(16), aligned(1), may_alias));

#if LANES == 16
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#elif LANES == 8
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#else
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#endif
#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
INLINE Ints mask_for(Vec) { return Ints{}; }
INLINE Sixteen mask_for(Sixteen) { return Sixteen{}; }
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, decltype(mask_for(a)){__VA_ARGS__})
#endif

INLINE Vec load(const float* p) { return *reinterpret_cast<const Vec*>(p); }
INLINE void store(float* p, Vec v) { *reinterpret_cast<Vec*>(p) = v; }
INLINE Vec load_unaligned(const float* p) { return *reinterpret_cast<const VecUnaligned*>(p); }
INLINE void store_unaligned(float* p, Vec v) { *reinterpret_cast<VecUnaligned*>(p) = v; }
INLINE Vec all(float x) { return x - Vec{}; }
INLINE Vec positive(Vec v) { return v > 0 ? v : Vec{}; }
INLINE float start(const float* bias, int row) { return bias ? bias[row] + 0.0f : 0.0f; }  // never -0

// Written out for scalars: a compiler may vectorise a chain of products and then leaves the sums uncontracted.
INLINE float multiply_add(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

INLINE float add_lanes(const float* lanes) {  // of sixteen; the order is the same in every instruction set
  float a[8];
  for (int i = 0; i < 8; i++) a[i] = lanes[i] + lanes[i + 8];
  for (int i = 0; i < 4; i++) a[i] += a[i + 4];
  return (a[0] + a[2]) + (a[1] + a[3]);
}

// Convolution ---------------------------------------------------------------------------------------------------

// A tile of TR x TW output pixels of one unit: TR*TW accumulators stay in registers over all live sources. Each
// loaded input vector serves up to K*K of them, so that loads are a third of the multiply-adds.
template <int K, int TR, int TW, bool FLIP>
INLINE void conv_tile(const ConvForward& a, int row, int y, int x, int part, Vec (&acc)[TR][TW]) {
  const long in_row = a.in.row(), in_unit = a.in.unit();
  const float* corner =
      a.input + (y + a.in.border - K / 2) * in_row + long(x + a.in.border - K / 2) * kLanes + part * LANES;
  Vec first = all(start(a.bias, row));
  for (int r = 0; r < TR; r++)
    for (int c = 0; c < TW; c++) acc[r][c] = first;
  const Connections& n = a.connections;
  const int end = n.starts[row + 1];
  for (int k = n.starts[row]; k < end; k++) {
    const float* p = corner + n.column[k] * in_unit;
    const float* w = n.weights + long(n.place ? n.place[k] : k) * (K * K);
    const float* next = k + 1 < end ? corner + n.column[k + 1] * in_unit : p;
    Vec weight[K * K];
    for (int i = 0; i < K * K; i++) weight[i] = all(w[FLIP ? K * K - 1 - i : i]);
#pragma GCC unroll 16
    for (int iy = 0; iy < TR + K - 1; iy++) {
#pragma GCC unroll 16
      for (int ix = 0; ix < TW + K - 1; ix++) {
        Vec v = load(p + iy * in_row + ix * kLanes);
        __builtin_prefetch(next + iy * in_row + ix * kLanes);
#pragma GCC unroll 8
        for (int r = 0; r < TR; r++) {
          if (iy - r < 0 || iy - r >= K) continue;
#pragma GCC unroll 8
          for (int kx = 0; kx < K; kx++)
            if (ix - kx >= 0 && ix - kx < TW) acc[r][ix - kx] += weight[(iy - r) * K + kx] * v;
        }
      }
    }
  }
}

template <int TR, int TW>
INLINE void finish_tile(const ConvForward& a, int row, int y, int x, int part, Vec (&acc)[TR][TW]) {
  const int unit = a.units[row];
  float* out = a.output + unit * a.out.unit() + a.out.first() + part * LANES;
  if (a.pool) {
    if constexpr (TR == 2 && TW % 2 == 0) {
      uint8_t* winner = a.winner ? a.winner + (long(unit) * a.out.height * a.out.width) * kLanes : nullptr;
      for (int c = 0; c < TW; c += 2) {
        Vec best = acc[0][c];
        Ints which = {};
        for (int i = 1; i < 4; i++) {  // the first of equals wins, as in PyTorch
          Vec v = acc[i / 2][c + i % 2];
          Ints better = v > best;
          best = better ? v : best;
          which = better ? Ints{} + i : which;
        }
        const long at = long(y / 2) * a.out.row() + long(x + c) / 2 * kLanes;
        store(out + at, positive(best));
        if (winner) {
          typedef uint8_t Bytes __attribute__((vector_size(LANES), aligned(1), may_alias));
          *reinterpret_cast<Bytes*>(winner + (long(y / 2) * a.out.width + (x + c) / 2) * kLanes + part * LANES) =
              __builtin_convertvector(which, Bytes);
        }
      }
    }
    return;
  }
  const float* gate =
      a.gate ? a.gate + unit * a.gate_plane.unit() + a.gate_plane.first() + part * LANES : nullptr;
  for (int r = 0; r < TR; r++)
    for (int c = 0; c < TW; c++) {
      Vec v = a.relu ? positive(acc[r][c]) : acc[r][c];
      if (gate) v = load(gate + (y + r) * a.gate_plane.row() + (x + c) * kLanes) > 0 ? v : Vec{};
      store(out + (y + r) * a.out.row() + (x + c) * kLanes, v);
    }
}

template <int K, int TR, int TW, bool FLIP>
INLINE void conv_tiles(const ConvForward& a, int row, int y, int& x, int width) {
  for (; x + TW <= width; x += TW)
    for (int part = 0; part < kParts; part++) {
      Vec acc[TR][TW];
      if (!a.pool) {  // the tile's place is asked for while it is computed
        const float* out = a.output + a.units[row] * a.out.unit() + a.out.first() + y * a.out.row() + x * kLanes;
        for (int r = 0; r < TR; r++)
          for (int c = 0; c < TW; c++) __builtin_prefetch(out + r * a.out.row() + c * kLanes, 1);
      }
      conv_tile<K, TR, TW, FLIP>(a, row, y, x, part, acc);
      finish_tile<TR, TW>(a, row, y, x, part, acc);
    }
}

template <int K, bool FLIP>
void conv_forward_of(const ConvForward& a) {
  constexpr int kWide = LANES == 16 ? 8 : 4;  // what the registers hold
  const int end = a.y + a.rows, width = a.pool ? a.in.width / 2 * 2 : a.in.width;
  for (int y = a.y; y < end; y += 2)
    for (int row = a.begin; row < a.end; row++) {
      int x = 0;
      if (y + 1 < end) {
        conv_tiles<K, 2, kWide, FLIP>(a, row, y, x, width);
        conv_tiles<K, 2, 2, FLIP>(a, row, y, x, width);
        if (!a.pool) conv_tiles<K, 2, 1, FLIP>(a, row, y, x, width);
      } else {
        conv_tiles<K, 1, kWide, FLIP>(a, row, y, x, width);
        conv_tiles<K, 1, 1, FLIP>(a, row, y, x, width);
      }
    }
}

void conv_forward(const ConvForward& a) {
  switch (a.kernel * 2 + a.flip) {
    case 2: return conv_forward_of<1, false>(a);
    case 3: return conv_forward_of<1, true>(a);
    case 6: return conv_forward_of<3, false>(a);
    case 7: return conv_forward_of<3, true>(a);
    case 10: return conv_forward_of<5, false>(a);
    case 11: return conv_forward_of<5, true>(a);
  }
}

// Per connection K*K accumulators; the input's window slides in registers, two image rows at a time.
template <int K, int TR>
INLINE void weight_rows(const float* in, long in_row, const float* gradient, long out_row, int width,
                        Vec (&acc)[K * K]) {
  Vec window[TR + K - 1][K];
#pragma GCC unroll 8
  for (int iy = 0; iy < TR + K - 1; iy++)
#pragma GCC unroll 8
    for (int kx = 1; kx < K; kx++) window[iy][kx] = load(in + iy * in_row + (kx - 1) * kLanes);
  for (int x = 0; x < width; x++) {
    Vec g[TR];
#pragma GCC unroll 8
    for (int r = 0; r < TR; r++) g[r] = load(gradient + r * out_row + x * kLanes);
#pragma GCC unroll 8
    for (int iy = 0; iy < TR + K - 1; iy++) {
#pragma GCC unroll 8
      for (int kx = 0; kx + 1 < K; kx++) window[iy][kx] = window[iy][kx + 1];
      window[iy][K - 1] = load(in + iy * in_row + (x + K - 1) * kLanes);
    }
#pragma GCC unroll 8
    for (int r = 0; r < TR; r++)
#pragma GCC unroll 8
      for (int ky = 0; ky < K; ky++)
#pragma GCC unroll 8
        for (int kx = 0; kx < K; kx++) acc[ky * K + kx] += g[r] * window[r + ky][kx];
  }
}

template <int K>
void conv_weight_gradient_of(const ConvWeightGradient& a) {
  const Connections& n = a.connections;
  const long in_row = a.in.row(), out_row = a.out.row();
  const float* corner = a.input + (a.y + a.in.border - K / 2) * in_row + (a.in.border - K / 2) * kLanes;
  for (int row = a.begin; row < a.end; row++) {
    const float* gradient = a.gradient + a.units[row] * a.out.unit() + a.out.first() + a.y * out_row;
    for (int part = 0; part < kParts; part++) {
      float* bias = a.bias_sums + long(row - a.begin) * kLanes + part * LANES;
      Vec total = load(bias);
      for (int y = 0; y < a.rows; y++)
        for (int x = 0; x < a.out.width; x++) total += load(gradient + y * out_row + x * kLanes + part * LANES);
      store(bias, total);
    }
    for (int k = n.starts[row]; k < n.starts[row + 1]; k++) {
      const float* in = corner + n.column[k] * a.in.unit();
      float* sums = a.sums + long(k - n.starts[a.begin]) * (K * K) * kLanes;
      for (int part = 0; part < kParts; part++) {
        Vec acc[K * K];
        for (int i = 0; i < K * K; i++) acc[i] = load(sums + i * kLanes + part * LANES);
        const float *p = in + part * LANES, *g = gradient + part * LANES;
        int y = 0;
        for (; y + 2 <= a.rows; y += 2)
          weight_rows<K, 2>(p + y * in_row, in_row, g + y * out_row, out_row, a.out.width, acc);
        if (y < a.rows) weight_rows<K, 1>(p + y * in_row, in_row, g + y * out_row, out_row, a.out.width, acc);
        for (int i = 0; i < K * K; i++) store(sums + i * kLanes + part * LANES, acc[i]);
      }
    }
  }
}

void conv_weight_gradient(const ConvWeightGradient& a) {
  switch (a.kernel) {
    case 1: return conv_weight_gradient_of<1>(a);
    case 3: return conv_weight_gradient_of<3>(a);
    case 5: return conv_weight_gradient_of<5>(a);
  }
}

// The gradient of a pooled map goes to the pixel that won; the other three get 0.
void unpool(const float* pooled, Plane in, const uint8_t* winner, float* output, Plane out) {
  typedef uint8_t Bytes __attribute__((vector_size(LANES), aligned(1), may_alias));
  for (int y = 0; y < in.height; y++)
    for (int x = 0; x < in.width; x++)
      for (int part = 0; part < kParts; part++) {
        Vec g = load(pooled + in.first() + y * in.row() + x * kLanes + part * LANES);
        Ints which = __builtin_convertvector(
            *reinterpret_cast<const Bytes*>(winner + (long(y) * in.width + x) * kLanes + part * LANES), Ints);
        float* to = output + out.first() + 2 * y * out.row() + 2 * x * kLanes + part * LANES;
        for (int i = 0; i < 4; i++)
          store(to + i / 2 * out.row() + i % 2 * kLanes, which == i ? g : Vec{});
      }
}

// Linear --------------------------------------------------------------------------------------------------------

// Sources are taken in chunks that stay in the nearest caches together with their blocks; the accumulators of a row wait
// in memory meanwhile. `segments` says where a row's connections enter each chunk.
INLINE int chunks_at_once(int blocks) {
  const int bytes = blocks > 4 ? 65536 : 131072;  // few blocks: a visit to a row is short, so that fewer are better
  return bytes / (blocks * kLanes * 4 * kChunk);
}

// R rows side by side: their chains of multiply-adds overlap.
template <int B, int R>
INLINE void linear_rows(const LinearForward& a, int row, const int32_t* from, const int32_t* to, bool first, bool last) {
  const Connections& n = a.connections;
  int both = to[row] - from[row];
  for (int r = 1; r < R; r++) both = to[row + r] - from[row + r] < both ? to[row + r] - from[row + r] : both;
  for (int part = 0; part < kParts; part++) {
    const float* in = a.input + part * LANES;
    Vec acc[R][B];
    auto add = [&](int r, int k) __attribute__((always_inline)) {
      const float* p = in + long(n.column[k]) * kLanes;
      const Vec w = all(n.weights[k]);
#pragma GCC unroll 8
      for (int b = 0; b < B; b++) acc[r][b] += w * load(p + b * a.input_stride);
    };
    for (int r = 0; r < R; r++) {
      const float* out = a.output + long(a.units[row + r]) * kLanes + part * LANES;
      for (int b = 0; b < B; b++) acc[r][b] = first ? all(start(a.bias, row + r)) : load(out + b * a.output_stride);
    }
    for (int i = 0; i < both; i++)
#pragma GCC unroll 2
      for (int r = 0; r < R; r++) add(r, from[row + r] + i);
#pragma GCC unroll 2
    for (int r = 0; r < R; r++) {
      for (int k = from[row + r] + both; k < to[row + r]; k++) add(r, k);
      const long place = long(a.units[row + r]) * kLanes + part * LANES;
      for (int b = 0; b < B; b++) {
        if (last && a.relu) acc[r][b] = positive(acc[r][b]);
        store(a.output + place + b * a.output_stride, acc[r][b]);
      }
    }
  }
}

template <int B>
void linear_forward_of(const LinearForward& a) {
  constexpr int kRows = LANES == 16 ? 2 : 1;  // what the registers hold
  const Connections& n = a.connections;
  const int step = chunks_at_once(B), chunks = (a.columns + kChunk - 1) / kChunk;
  for (int chunk = 0; chunk < chunks; chunk += step) {
    const bool first = chunk == 0, last = chunk + step >= chunks;
    const int32_t* from = n.segments + long(chunk) * n.rows;
    const int32_t* to = n.segments + long(last ? chunks : chunk + step) * n.rows;
    int row = a.begin;
    for (; row + kRows <= a.end; row += kRows) linear_rows<B, kRows>(a, row, from, to, first, last);
    for (; row < a.end; row++) linear_rows<B, 1>(a, row, from, to, first, last);
  }
}

void linear_forward(const LinearForward& a) {
  switch (a.blocks) {
    case 1: return linear_forward_of<1>(a);
    case 2: return linear_forward_of<2>(a);
    case 3: return linear_forward_of<3>(a);
    case 4: return linear_forward_of<4>(a);
    case 5: return linear_forward_of<5>(a);
    case 6: return linear_forward_of<6>(a);
    case 7: return linear_forward_of<7>(a);
    case 8: return linear_forward_of<8>(a);
  }
}

// LANES vectors become one: element i is the sum over the lanes of v[i].
INLINE Vec add_lanes_of(Vec (&v)[LANES]) {
#pragma GCC unroll 8
  for (int width = LANES; width > 1; width /= 2)
#pragma GCC unroll 8
    for (int i = 0; i < width / 2; i++)
      v[i] = SHUFFLE(v[2 * i], v[2 * i + 1], EVEN) + SHUFFLE(v[2 * i], v[2 * i + 1], ODD);
  return v[0];
}

// A source's activations and the sum of its gradient stay in registers; each vector of a target's gradient that is
// loaded serves both the source and the weight. Sums over lanes are taken for LANES connections at once.
template <int B, bool NEEDED>
void linear_backward_of(const LinearBackward& a) {
  const Connections& n = a.connections;
  Vec waiting[LANES];
  float* target[LANES];
  float nobody = 0;  // the weights of frozen units have no gradient
  int count = 0;
  auto flush = [&] {
    for (int i = count; i < LANES; i++) waiting[i] = Vec{};
    const Vec sums = add_lanes_of(waiting);
    for (int i = 0; i < count; i++) *target[i] += sums[i];
    count = 0;
  };
  for (int row = a.begin; row < a.end; row++)
    for (int part = 0; part < kParts; part++) {
      const long place = long(a.columns[row]) * kLanes + part * LANES;
      Vec x[B], sum[B];
      for (int b = 0; b < B; b++) x[b] = load(a.input + place + b * a.input_stride), sum[b] = Vec{};
      for (int k = n.starts[row]; k < n.starts[row + 1]; k++) {
        const float* g = a.gradient + long(n.column[k]) * kLanes + part * LANES;
        const int at = n.place[k];
        const Vec w = NEEDED ? all(n.weights[at]) : Vec{};
        Vec one = {}, two = {};
#pragma GCC unroll 16
        for (int b = 0; b < B; b++) {
          const Vec v = load(g + b * a.gradient_stride);
          if (NEEDED) sum[b] += w * v;
          if (b % 2) two += x[b] * v;
          else one += x[b] * v;
        }
        waiting[count] = one + two;
        target[count] = at < a.first ? &nobody : a.weights + (at - a.first);
        count++;
        if (count == LANES) flush();
      }
      if (NEEDED)
        for (int b = 0; b < B; b++) store(a.input_gradient + place + b * a.input_stride, x[b] > 0 ? sum[b] : Vec{});
    }
  flush();
}

void linear_backward(const LinearBackward& a) {
  switch (a.needed ? a.blocks : 16 + a.blocks) {
    case 1: return linear_backward_of<1, true>(a);
    case 2: return linear_backward_of<2, true>(a);
    case 3: return linear_backward_of<3, true>(a);
    case 4: return linear_backward_of<4, true>(a);
    case 5: return linear_backward_of<5, true>(a);
    case 6: return linear_backward_of<6, true>(a);
    case 7: return linear_backward_of<7, true>(a);
    case 8: return linear_backward_of<8, true>(a);
    case 17: return linear_backward_of<1, false>(a);
    case 18: return linear_backward_of<2, false>(a);
    case 19: return linear_backward_of<3, false>(a);
    case 20: return linear_backward_of<4, false>(a);
    case 21: return linear_backward_of<5, false>(a);
    case 22: return linear_backward_of<6, false>(a);
    case 23: return linear_backward_of<7, false>(a);
    case 24: return linear_backward_of<8, false>(a);
    case 25: return linear_backward_of<9, false>(a);
    case 26: return linear_backward_of<10, false>(a);
    case 27: return linear_backward_of<11, false>(a);
    case 28: return linear_backward_of<12, false>(a);
    case 29: return linear_backward_of<13, false>(a);
    case 30: return linear_backward_of<14, false>(a);
    case 31: return linear_backward_of<15, false>(a);
    case 32: return linear_backward_of<16, false>(a);
  }
}

float sum(const float* unit, long stride, int blocks) {
  alignas(64) float lanes[kLanes];
  for (int part = 0; part < kParts; part++) {
    Vec total = {};
    for (int b = 0; b < blocks; b++) total += load(unit + b * stride + part * LANES);
    store(lanes + part * LANES, total);
  }
  return add_lanes(lanes);
}

void reduce(const float* lanes, float* sums, long count) {
  for (long i = 0; i < count; i++) sums[i] = add_lanes(lanes + i * kLanes);
}

// Data ----------------------------------------------------------------------------------------------------------

// Sixteen bytes of sixteen samples become sixteen times one byte of every sample.
INLINE void transpose_bytes(Sixteen (&v)[16]) {
  for (int round = 0; round < 4; round++) {  // each round interleaves v[i] and v[i + 8]
    Sixteen t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
      t[2 * i] = SHUFFLE(v[i], v[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      t[2 * i + 1] = SHUFFLE(v[i], v[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) v[i] = t[i];
  }
}

void gather(const Gather& a) {
  const long area = long(a.height) * a.width;
  static const uint8_t nothing[16] = {};
  for (int channel = 0; channel < a.channels; channel++)
    for (int y = 0; y < a.height; y++) {
      const long from = channel * area + long(y) * a.width;
      float* to = a.output + channel * a.out.unit() + a.out.first() + y * a.out.row();
      const float scale = a.scale[channel], shift = a.shift[channel];
      int x = 0;
      if (a.bytes)
        for (; x + 16 <= a.width; x += 16) {
          Sixteen v[16];
          for (int i = 0; i < 16; i++)
            v[i] = *reinterpret_cast<const Sixteen*>(
                a.sample[i] ? static_cast<const uint8_t*>(a.sample[i]) + from + x : nothing);
          transpose_bytes(v);
          for (int i = 0; i < 16; i++) {
            const uint8_t* bytes = reinterpret_cast<const uint8_t*>(&v[i]);
            float* pixel = to + (x + i) * kLanes;
#pragma GCC ivdep
            for (int lane = 0; lane < kLanes; lane++) pixel[lane] = float(bytes[lane]) * scale + shift;
          }
        }
      for (; x < a.width; x++)
        for (int lane = 0; lane < kLanes; lane++) {
          float v = 0;
          if (a.sample[lane])
            v = a.bytes ? float(static_cast<const uint8_t*>(a.sample[lane])[from + x])
                        : static_cast<const float*>(a.sample[lane])[from + x];
          to[x * kLanes + lane] = v * scale + shift;
        }
    }
}

double total(const float* map, Plane plane, int lanes) {
  double sums[kLanes] = {};
  for (int y = 0; y < plane.height; y++)
    for (int x = 0; x < plane.width; x++) {
      const float* p = map + plane.first() + y * plane.row() + x * kLanes;
      for (int lane = 0; lane < kLanes; lane++) sums[lane] += double(p[lane]);
    }
  double sum = 0;
  for (int lane = 0; lane < lanes; lane++) sum += sums[lane];
  return sum;
}

// Few samples ---------------------------------------------------------------------------------------------------

// One image row (two with pooling) of one unit; vectors run along the row. The sums are those of conv_tile.
template <int K, int TR, int TV>
INLINE void small_tile(const SmallConv& a, int row, int y, int x, Vec (&acc)[TR][TV]) {
  const float* corner = a.input + y * a.in_stride + x;
  for (int r = 0; r < TR; r++)
    for (int c = 0; c < TV; c++) acc[r][c] = all(start(a.bias, row));
  const Connections& n = a.connections;
  for (int k = n.starts[row]; k < n.starts[row + 1]; k++) {
    const float* p = corner + n.column[k] * a.in_unit;
    const float* w = n.weights + long(k) * (K * K);
#pragma GCC unroll 8
    for (int iy = 0; iy < TR + K - 1; iy++)
#pragma GCC unroll 8
      for (int kx = 0; kx < K; kx++)
#pragma GCC unroll 8
        for (int c = 0; c < TV; c++) {
          Vec v = load_unaligned(p + iy * a.in_stride + kx + c * LANES);
#pragma GCC unroll 8
          for (int r = 0; r < TR; r++)
            if (iy - r >= 0 && iy - r < K) acc[r][c] += all(w[(iy - r) * K + kx]) * v;
        }
  }
}

template <int K, int TR, int TV>
INLINE void small_rows(const SmallConv& a, int row, int y) {
  const int unit = a.units[row];
  for (int x = 0; x < a.width; x += TV * LANES) {
    Vec acc[TR][TV];
    small_tile<K, TR, TV>(a, row, y, x, acc);
    for (int r = 0; r < TR; r++)
      for (int c = 0; c < TV; c++)
        store_unaligned(a.scratch + r * a.in_stride + x + c * LANES, positive(acc[r][c]));
  }
  if (!a.pool) {
    for (int r = 0; r < TR; r++) {
      float* out = a.output + unit * a.out_unit + (y + r + a.out_border) * a.out_stride + a.out_border;
      const float* from = a.scratch + r * a.in_stride;
      for (int x = 0; x < a.width; x++) out[x] = from[x];
    }
  } else if (TR == 2) {
    float* out = a.output + unit * a.out_unit + (y / 2 + a.out_border) * a.out_stride + a.out_border;
    const float *up = a.scratch, *down = a.scratch + a.in_stride;
    for (int x = 0; x < a.width / 2; x++) {
      float best = up[2 * x];
      if (up[2 * x + 1] > best) best = up[2 * x + 1];
      if (down[2 * x] > best) best = down[2 * x];
      if (down[2 * x + 1] > best) best = down[2 * x + 1];
      out[x] = best;
    }
  }
}

template <int K>
void small_conv_of(const SmallConv& a) {
  for (int row = a.begin; row < a.end; row++) {
    int y = 0;
    for (; y + 2 <= a.height; y += 2)
      if (a.width > LANES)
        small_rows<K, 2, 2>(a, row, y);
      else
        small_rows<K, 2, 1>(a, row, y);
    if (y < a.height && !a.pool) small_rows<K, 1, 1>(a, row, y);
  }
}

void small_conv(const SmallConv& a) {
  switch (a.kernel) {
    case 1: return small_conv_of<1>(a);
    case 3: return small_conv_of<3>(a);
    case 5: return small_conv_of<5>(a);
  }
}

// Eight rows at a time: each is one chain of dependent multiply-adds, eight of them hide their latency.
void small_linear(const SmallLinear& a) {
  const Connections& n = a.connections;
  int row = a.begin;
  for (; row + 8 <= a.end; row += 8) {
    float acc[8];
    int k[8], left = n.starts[row + 1] - n.starts[row];
    for (int i = 0; i < 8; i++) {
      acc[i] = start(a.bias, row + i);
      k[i] = n.starts[row + i];
      const int length = n.starts[row + i + 1] - k[i];
      left = length < left ? length : left;
    }
    for (int j = 0; j < left; j++)
#pragma GCC unroll 8
      for (int i = 0; i < 8; i++)
        acc[i] = multiply_add(n.weights[k[i] + j], a.input[n.column[k[i] + j]], acc[i]);
    for (int i = 0; i < 8; i++) {
      for (int j = k[i] + left; j < n.starts[row + i + 1]; j++)
        acc[i] = multiply_add(n.weights[j], a.input[n.column[j]], acc[i]);
      a.output[a.units[row + i]] = a.relu && !(acc[i] > 0) ? 0.0f : acc[i];
    }
  }
  for (; row < a.end; row++) {
    float acc = start(a.bias, row);
    for (int k = n.starts[row]; k < n.starts[row + 1]; k++)
      acc = multiply_add(n.weights[k], a.input[n.column[k]], acc);
    a.output[a.units[row]] = a.relu && !(acc > 0) ? 0.0f : acc;
  }
}

// Optimizers, as PyTorch computes them ---------------------------------------------------------------------------

void adam(float* __restrict value, const float* __restrict gradient, float* __restrict mean,
          float* __restrict square, long count, float step, float root_correction, float decay) {
  // 1 - beta is rounded once, from the exact number: 1 - 0.999f would be off by 1e-5 of itself.
  constexpr float rest1 = float(1 - 0.9), beta2 = 0.999f, rest2 = float(1 - 0.999), epsilon = 1e-8f;
  for (long i = 0; i < count; i++) {
    const float g = gradient[i] + decay * value[i];
    mean[i] += rest1 * (g - mean[i]);
    square[i] = beta2 * square[i] + rest2 * g * g;
    value[i] -= step * mean[i] / (__builtin_sqrtf(square[i]) / root_correction + epsilon);
  }
}

void sgd(float* __restrict value, const float* __restrict gradient, float* __restrict velocity, long count,
         float rate, float momentum, float decay, bool first) {
  for (long i = 0; i < count; i++) {
    float g = gradient[i] + decay * value[i];
    if (velocity) g = velocity[i] = first ? g : momentum * velocity[i] + g;
    value[i] -= rate * g;
  }
}

}  // namespace

#define NISPA_JOIN(a, b) a##b
#define NISPA_NAME(isa) NISPA_JOIN(kernels_, isa)
#define NISPA_TEXT_(x) #x
#define NISPA_TEXT(x) NISPA_TEXT_(x)

const Kernels& NISPA_NAME(NISPA_ISA)() {
  static const Kernels table = {NISPA_TEXT(NISPA_ISA), conv_forward, conv_weight_gradient, linear_forward,
                                linear_backward, sum, gather, unpool, total, reduce, small_conv, small_linear,
                                adam, sgd};
  return table;
}

}  // namespace nispa
