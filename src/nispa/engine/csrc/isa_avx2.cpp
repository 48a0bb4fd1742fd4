#define NISPA_ISA avx2
#define LANES 8
#include "kernels.inl"
