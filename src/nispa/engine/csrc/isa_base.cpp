#define NISPA_ISA base
#define LANES 4
#include "kernels.inl"
