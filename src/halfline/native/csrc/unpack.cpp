#include "unpack.hpp"

#include <cmath>
#include <cstring>

#include "panel_layout.hpp"

namespace halfline {
namespace {

float half_value(const std::uint8_t* half) {
  std::uint16_t bits;
  std::memcpy(&bits, half, 2);
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  if (magnitude < 0x0400u) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign ? -value : value;
  }
  const std::uint32_t exponent = magnitude >= 0x7c00u ? 0x7f800000u - 0x0f800000u : 0x38000000u;
  const std::uint32_t wide = sign | ((magnitude << 13) + exponent);
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

float float_value(Format format, const std::uint8_t* p) {
  if (format == Format::F16) return half_value(p);
  std::uint32_t bits = 0;
  if (format == Format::F32) {
    std::memcpy(&bits, p, 4);
  } else {
    std::uint16_t upper;
    std::memcpy(&upper, p, 2);
    bits = static_cast<std::uint32_t>(upper) << 16;
  }
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// Calls take(k, weight, minimum) for every value of a row, which is the sum of the two.
template <class F>
void walk_row(const PackedMatrix& matrix, int row, F&& take) {
  const int lane = row % kPanelRows;
  const std::uint8_t* panel = matrix.data + static_cast<std::size_t>(row / kPanelRows) * matrix.panel_bytes;
  if (!matrix.quantised()) {
    const std::size_t bytes = matrix.format == Format::F32 ? 4 : 2;
    for (int k = 0; k < matrix.cols; ++k) {
      take(k, float_value(matrix.format, panel + (static_cast<std::size_t>(k) * kPanelRows + lane) * bytes), 0.0f);
    }
    return;
  }
  const PanelLayout layout = panel_layout_of(matrix.format);
  for (int block = 0; block < matrix.cols / kBlockValues; ++block) {
    const auto number = static_cast<std::size_t>(block);
    const std::uint8_t* scales = panel + layout.scales_at(number);
    const std::size_t sub = number % layout.group();
    float scale = 0, second = 0, minimum = 0;
    switch (layout.kind) {
      case Scales::plain: scale = second = half_value(scales + sub * 32 + 2 * lane); break;
      case Scales::with_min:
        scale = second = half_value(scales + 2 * lane);
        minimum = half_value(scales + 32 + 2 * lane);
        break;
      case Scales::super_with_min:
        scale = second = half_value(scales + 2 * lane) * static_cast<float>(scales[64 + sub * 32 + lane]);
        minimum = -(half_value(scales + 32 + 2 * lane) * static_cast<float>(scales[64 + sub * 32 + 16 + lane]));
        break;
      case Scales::super_halves: {
        const auto part = [&](std::size_t half) {
          return half_value(scales + 2 * lane) *
                 static_cast<float>(static_cast<std::int8_t>(scales[32 + sub * 32 + half * 16 + lane]));
        };
        scale = part(0);
        second = part(1);
        break;
      }
    }
    const std::uint8_t* quants = panel + layout.quants_at(number);
    for (int k = 0; k < kBlockValues; ++k) {
      const int byte = quants[layout.byte_at(lane, k)];
      const int quant = !layout.nibbles ? byte : k < 16 ? byte & 15 : byte >> 4;
      const float value = static_cast<float>(quant - layout.zero) * (k < 16 ? scale : second);
      take(block * kBlockValues + k, value, minimum);
    }
  }
}

}  // namespace

void unpack_row(const PackedMatrix& matrix, int row, float* output) {
  walk_row(matrix, row, [&](int k, float weight, float minimum) { output[k] = weight + minimum; });
}

void add_squares(const PackedMatrix& matrix, int row, BlockSquares* blocks) {
  walk_row(matrix, row, [&](int k, float weight, float minimum) {
    const double both = double{weight} + minimum, apart = std::abs(double{weight}) + std::abs(double{minimum});
    blocks[k / kBlockValues].whole += both * both;
    blocks[k / kBlockValues].parts += apart * apart;
  });
}

}  // namespace halfline
