#include "pack.hpp"

#include <cstring>
#include <stdexcept>
#include <string>

#include "panel_layout.hpp"

namespace halfline {
namespace {

struct FileBlock {
  int values;
  int bytes;
};

FileBlock file_block(Format format) {
  switch (format) {
    case Format::F32: return {1, 4};
    case Format::F16: return {1, 2};
    case Format::BF16: return {1, 2};
    case Format::Q4_0: return {32, 18};
    case Format::Q4_1: return {32, 20};
    case Format::Q5_0: return {32, 22};
    case Format::Q5_1: return {32, 24};
    case Format::Q8_0: return {32, 34};
    case Format::Q4_K: return {256, 144};
    case Format::Q5_K: return {256, 176};
    case Format::Q6_K: return {256, 210};
  }
  throw std::invalid_argument("unknown tensor format " + std::to_string(static_cast<int>(format)));
}

// 32 unsigned quants of one row into a block's.
void put(const PanelLayout& layout, const std::uint8_t* q, int lane, std::uint8_t* quants) {
  for (int k = 0; k < kBlockValues; ++k) {
    std::uint8_t& byte = quants[layout.byte_at(lane, k)];
    byte = static_cast<std::uint8_t>(layout.nibbles && k >= 16 ? byte | (q[k] << 4) : q[k]);
  }
}

// Six-bit scales and minima of sub-block j, from the 12 bytes that K-quants keep them in.
void sub_scale(const std::uint8_t* packed, int j, std::uint8_t& scale, std::uint8_t& minimum) {
  if (j < 4) {
    scale = packed[j] & 63;
    minimum = packed[j + 4] & 63;
  } else {
    scale = static_cast<std::uint8_t>((packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4));
    minimum = static_cast<std::uint8_t>((packed[j + 4] >> 4) | ((packed[j] >> 6) << 4));
  }
}

void copy_half(std::uint8_t* vector, int lane, const std::uint8_t* half) { std::memcpy(vector + 2 * lane, half, 2); }

// Q4_0, Q4_1, Q8_0 and the five-bit formats: scale, [minimum,] [32 high bits,] quants. A file's nibble byte i holds
// k = i and k = 16 + i, exactly as ours do.
void pack_plain(const PackedMatrix& shape, const std::uint8_t* file, int lane, std::uint8_t* panel) {
  const PanelLayout layout = panel_layout_of(shape.format);
  const bool with_min = layout.kind == Scales::with_min;
  const bool five = shape.format == Format::Q5_0 || shape.format == Format::Q5_1;
  const std::size_t block_bytes = static_cast<std::size_t>(file_block(shape.format).bytes);
  for (std::size_t block = 0; block < static_cast<std::size_t>(shape.cols / kBlockValues); ++block) {
    const std::uint8_t* source = file + block * block_bytes;
    std::uint8_t* quants = panel + layout.quants_at(block);
    const std::uint8_t* data = source + (with_min ? 4 : 2);
    if (five) {
      std::uint32_t high;
      std::memcpy(&high, data, 4);
      std::uint8_t q[32];
      for (int k = 0; k < 32; ++k) {
        const int nibble = k < 16 ? data[4 + k] & 15 : data[4 + k - 16] >> 4;
        q[k] = static_cast<std::uint8_t>(nibble | (((high >> k) & 1) << 4));
      }
      put(layout, q, lane, quants);
    } else {
      for (int g = 0; g < (layout.nibbles ? 4 : 8); ++g) {
        std::uint32_t word;
        std::memcpy(&word, data + 4 * g, 4);
        if (!layout.nibbles) word ^= 0x80808080u;  // Q8_0 is stored with a zero point of 128
        std::memcpy(quants + g * 64 + lane * 4, &word, 4);
      }
    }
    std::uint8_t* scales = panel + layout.scales_at(block) + block % layout.group() * 32;
    copy_half(scales, lane, source);
    if (with_min) copy_half(scales + 32, lane, source + 2);
  }
}

// Q4_K, Q5_K: d, dmin, 12 bytes of sub-scales, [32 bytes of high bits,] 128 bytes of nibbles.
void pack_super_with_min(const PackedMatrix& shape, const std::uint8_t* file, int lane, std::uint8_t* panel) {
  const bool five = shape.format == Format::Q5_K;
  const PanelLayout layout = panel_layout_of(shape.format);
  for (int super = 0; super < shape.cols / 256; ++super) {
    const std::uint8_t* source = file + static_cast<std::size_t>(super) * (five ? 176 : 144);
    const std::uint8_t* high = source + 16;
    const std::uint8_t* low = source + (five ? 48 : 16);
    const std::size_t first_block = static_cast<std::size_t>(super) * layout.group();
    std::uint8_t* scales = panel + layout.scales_at(first_block);
    copy_half(scales, lane, source);
    copy_half(scales + 32, lane, source + 2);
    for (int j = 0; j < 8; ++j) {
      std::uint8_t* sub = scales + 64 + j * 32;
      sub_scale(source + 4, j, sub[lane], sub[16 + lane]);
      std::uint8_t q[32];
      for (int k = 0; k < 32; ++k) {
        const std::uint8_t pair = low[(j / 2) * 32 + k];
        q[k] = j % 2 ? pair >> 4 : pair & 15;
        if (five) q[k] = static_cast<std::uint8_t>(q[k] | (((high[k] >> j) & 1) << 4));
      }
      put(layout, q, lane, panel + layout.quants_at(first_block + static_cast<std::size_t>(j)));
    }
  }
}

// Q6_K: 128 bytes of low nibbles, 64 of high pairs, 16 int8 scales, d.
void pack_super_halves(const PackedMatrix& shape, const std::uint8_t* file, int lane, std::uint8_t* panel) {
  const PanelLayout layout = panel_layout_of(shape.format);
  for (int super = 0; super < shape.cols / 256; ++super) {
    const std::uint8_t* source = file + static_cast<std::size_t>(super) * 210;
    const std::size_t first_block = static_cast<std::size_t>(super) * layout.group();
    std::uint8_t* scales = panel + layout.scales_at(first_block);
    copy_half(scales, lane, source + 208);
    for (int j = 0; j < 8; ++j) {
      std::uint8_t* sub = scales + 32 + j * 32;
      sub[lane] = source[192 + 2 * j];
      sub[16 + lane] = source[192 + 2 * j + 1];
      // 128 values share 64 low bytes and 32 high bytes: quarters 0 and 1 the low nibbles, 2 and 3 the high ones.
      const int quarter = j % 4;
      const std::uint8_t* low = source + (j / 4) * 64 + (quarter % 2) * 32;
      const std::uint8_t* high = source + 128 + (j / 4) * 32;
      std::uint8_t q[32];
      for (int k = 0; k < 32; ++k) {
        const int nibble = quarter < 2 ? low[k] & 15 : low[k] >> 4;
        q[k] = static_cast<std::uint8_t>(nibble | (((high[k] >> (2 * quarter)) & 3) << 4));
      }
      put(layout, q, lane, panel + layout.quants_at(first_block + static_cast<std::size_t>(j)));
    }
  }
}

template <class Element>
void pack_floats(const PackedMatrix& shape, const std::uint8_t* file, int lane, std::uint8_t* panel) {
  for (int k = 0; k < shape.cols; ++k) {
    std::memcpy(panel + (static_cast<std::size_t>(k) * kPanelRows + lane) * sizeof(Element),
                file + k * sizeof(Element), sizeof(Element));
  }
}

}  // namespace

std::size_t file_row_bytes(Format format, int cols) {
  const FileBlock block = file_block(format);
  return static_cast<std::size_t>(cols / block.values) * block.bytes;
}

PackedMatrix packed_shape(Format format, int rows, int cols) {
  const FileBlock file = file_block(format);
  if (rows < 1 || cols < 1 || cols % file.values) {
    throw std::invalid_argument("a matrix of " + std::to_string(rows) + " x " + std::to_string(cols) +
                                " in blocks of " + std::to_string(file.values));
  }
  PackedMatrix matrix{format, rows, cols, (rows + kPanelRows - 1) / kPanelRows, 0, nullptr};
  const auto n = static_cast<std::size_t>(cols);
  matrix.panel_bytes = matrix.quantised()
                           ? panel_layout_of(format).panel_bytes(n / kBlockValues)
                           : (n * kPanelRows * static_cast<std::size_t>(file.bytes) + 63) / 64 * 64;
  return matrix;
}

void pack_panels(const PackedMatrix& shape, const std::uint8_t* file, int begin, int end, std::uint8_t* data) {
  const std::size_t row_bytes = file_row_bytes(shape.format, shape.cols);
  const int last_row = end * kPanelRows < shape.rows ? end * kPanelRows : shape.rows;
  for (int row = begin * kPanelRows; row < last_row; ++row) {
    const std::uint8_t* source = file + row * row_bytes;
    std::uint8_t* panel = data + (row / kPanelRows) * shape.panel_bytes;
    const int lane = row % kPanelRows;
    switch (shape.format) {
      case Format::F32: pack_floats<std::uint32_t>(shape, source, lane, panel); break;
      case Format::F16:
      case Format::BF16: pack_floats<std::uint16_t>(shape, source, lane, panel); break;
      case Format::Q4_0:
      case Format::Q4_1:
      case Format::Q5_0:
      case Format::Q5_1:
      case Format::Q8_0: pack_plain(shape, source, lane, panel); break;
      case Format::Q4_K:
      case Format::Q5_K: pack_super_with_min(shape, source, lane, panel); break;
      case Format::Q6_K: pack_super_halves(shape, source, lane, panel); break;
    }
  }
}

}  // namespace halfline
