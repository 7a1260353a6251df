// The matrix unit's instructions (AMX), written as such: the compiler's own functions do not say which memory they
// touch. GCC 12 takes LDTILECFG to read eight bytes and drops what was written to the other 56, whereupon the first
// use of a tile is an illegal instruction.
#pragma once

#include <cstdint>

namespace halfline {
namespace {

constexpr int kActivationTile = 4, kWeightTile = 5;   // registers; 0..3 are for results

// Shapes of the eight tile registers, as LDTILECFG reads them.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  // For products of `num_rows` rows of activations, `depth` int8 values of each, with 16 rows of weights.
  TileShapes(int num_rows, int depth) {
    for (int result = 0; result < 4; ++result) set(result, num_rows, 64);
    set(kActivationTile, num_rows, depth);
    set(kWeightTile, depth / 4, 64);
  }
  void set(int tile, int num_rows, int bytes) {
    rows[tile] = static_cast<std::uint8_t>(num_rows);
    row_bytes[tile] = static_cast<std::uint16_t>(bytes);
  }
  void load() const { asm volatile("ldtilecfg %0" : : "m"(*this)); }
};

inline void release_tiles() { asm volatile("tilerelease"); }

template <int Tile>
inline void clear_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(Tile));
}

// What a tile's instruction touches at most. The compiler is told that much and no more: with a clobber of all memory,
// sums that a function keeps in an array do not stay in registers.
struct TileMemory {
  char bytes[1024];
};

// Rows lie side by side, `row_bytes` each, at most 64.
template <int Tile>
inline void load_tile(const void* data, std::int64_t row_bytes) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0"
               :
               : "i"(Tile), "r"(data), "r"(row_bytes), "m"(*static_cast<const TileMemory*>(data)));
}

template <int Tile>
inline void store_tile(void* data) {
  asm volatile("tilestored %%tmm%c1, (%2,%3,1)"
               : "=m"(*static_cast<TileMemory*>(data))
               : "i"(Tile), "r"(data), "r"(std::int64_t{64}));
}

// Result += activations [row][depth] x weights [depth / 4][16][4].
template <int Result>
inline void multiply_tiles() {
  asm volatile("tdpbssd %%tmm%c1, %%tmm%c2, %%tmm%c0" : : "i"(Result), "i"(kWeightTile), "i"(kActivationTile));
}

}  // namespace
}  // namespace halfline
