// What bounds a sparse linear layer: multiply-adds that each need a vector of their own from memory. `make bench-loads`
//
// A unit's sources lie at random among `columns` columns; eight blocks of sixteen samples wait in registers, as in
// linear_forward (csrc/kernels.inl). The fewer columns, the nearer the cache that holds them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

typedef float Vec __attribute__((vector_size(64), aligned(64)));
constexpr int kBlocks = 8, kConnections = 20000;

__attribute__((noinline)) void add(const float* x, long stride, const int* column, const float* weight, float* out) {
  Vec sums[kBlocks] = {};
  for (int k = 0; k < kConnections; k++) {
    const Vec w = weight[k] - Vec{};
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; b++)
      sums[b] += w * *reinterpret_cast<const Vec*>(x + column[k] * 16L + b * stride);
  }
  std::memcpy(out, sums, sizeof sums);
}

__attribute__((noinline)) void add_nothing_loaded(const float* x, const float* weight, float* out) {
  Vec sums[kBlocks] = {}, v[kBlocks];
  std::memcpy(v, x, sizeof v);
  for (int k = 0; k < kConnections; k++) {
    const Vec w = weight[k] - Vec{};
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; b++) sums[b] += w * v[b];
  }
  std::memcpy(out, sums, sizeof sums);
}

template <typename Work>
void rate(const char* what, Work work) {  // the best of many: what the machine can do, not what it does when disturbed
  double best = 1e9;
  for (int i = 0; i < 100; i++) {
    const auto begun = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  }
  std::printf("%-34s %6.1f GFLOP/s\n", what, 2.0 * 16 * kBlocks * kConnections / best / 1e9);
}

int main() {
  const long floats = 1L << 20;
  float* x = static_cast<float*>(std::aligned_alloc(4096, floats * 4));
  float* out = static_cast<float*>(std::aligned_alloc(64, kBlocks * 64));
  std::memset(x, 0, floats * 4);
  std::vector<float> weight(kConnections, 0.5f);
  rate("no loads", [&] { add_nothing_loaded(x, weight.data(), out); });
  for (int columns : {40, 100, 400, 784}) {
    std::vector<int> column(kConnections);
    for (int k = 1; k < kConnections; k++) column[k] = (column[k - 1] + 1 + std::rand() % 9) % columns;
    char what[64];
    std::snprintf(what, sizeof what, "%d columns (%ld KB)", columns, columns * kBlocks * 64L / 1024);
    rate(what, [&] { add(x, columns * 16L, column.data(), weight.data(), out); });
  }
}
