#define NISPA_ISA avx512
#define LANES 16
#include "kernels.inl"
