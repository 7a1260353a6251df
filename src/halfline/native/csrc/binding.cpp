// The Python face of the CPU executor.
#include <nanobind/nanobind.h>

NB_MODULE(_native, m) { m.doc() = "CPU executor"; }
