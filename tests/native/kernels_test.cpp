// The kernels on their own: prints one checksum per kernel, over fixed inputs, of the portable path. Every other path
// that this program was built with and that the machine has must come to the same.
//
// `make native-arm64` builds it with the portable path alone, for this machine and for arm64, and runs both, the latter
// under qemu; the two must print the same, since every lane performs the same roundings in the same order on any
// machine. `make sanitize` builds it with all paths.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "engine.hpp"
#include "isa.hpp"
#include "pack.hpp"
#include "unpack.hpp"

using namespace halfline;

namespace {

// A small generator of our own: the standard library's distributions differ between machines.
struct Random {
  std::uint64_t state = 1;
  std::uint32_t next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state >> 33);
  }
  // Within [-1, 1), exact in float.
  float value() { return static_cast<float>(static_cast<int>(next() % 65536) - 32768) / 32768.0f; }
  std::vector<float> values(int count) {
    std::vector<float> result(static_cast<std::size_t>(count));
    for (float& x : result) x = value();
    return result;
  }
};

std::string checksum(const char* name, const std::vector<float>& values) {
  std::uint64_t hash = 14695981039346656037u;
  for (const float value : values) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    hash = (hash ^ bits) * 1099511628211u;
  }
  char line[64];
  std::snprintf(line, sizeof(line), "%-12s %016llx\n", name, static_cast<unsigned long long>(hash));
  return line;
}

// Offsets of the fp16 numbers of a file's block, and the block's size.
struct FileFormat {
  const char* name;
  Format format;
  int values, bytes;
  std::vector<int> halves;
};

std::vector<std::uint8_t> random_file(const FileFormat& file, int rows, int cols, Random& random) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(rows) * file_row_bytes(file.format, cols));
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
  for (std::size_t block = 0; block < bytes.size(); block += static_cast<std::size_t>(file.bytes)) {
    for (const int offset : file.halves) {
      // The upper byte holds sign and exponent: 0.03 to 1, either sign.
      bytes[block + static_cast<std::size_t>(offset) + 1] =
          static_cast<std::uint8_t>(0x28 + random.next() % 16 + (random.next() % 2 ? 0x80 : 0));
    }
  }
  return bytes;
}

std::string test_linears(const Kernels& kernels) {
  std::string sums;
  const std::vector<FileFormat> files = {
      {"f16", Format::F16, 1, 2, {0}},          {"q4_0", Format::Q4_0, 32, 18, {0}},
      {"q4_1", Format::Q4_1, 32, 20, {0, 2}},   {"q5_0", Format::Q5_0, 32, 22, {0}},
      {"q5_1", Format::Q5_1, 32, 24, {0, 2}},   {"q8_0", Format::Q8_0, 32, 34, {0}},
      {"q4_k", Format::Q4_K, 256, 144, {0, 2}}, {"q5_k", Format::Q5_K, 256, 176, {0, 2}},
      {"q6_k", Format::Q6_K, 256, 210, {208}},
  };
  constexpr int kRows = 75, kCols = 512, kTokens = 7;
  for (const FileFormat& file : files) {
    Random random;
    const std::vector<std::uint8_t> bytes = random_file(file, kRows, kCols, random);
    PackedMatrix matrix = packed_shape(file.format, kRows, kCols);
    const Memory packed(static_cast<std::size_t>(matrix.panels) * matrix.panel_bytes);
    pack_panels(matrix, bytes.data(), 0, matrix.panels, packed.as<std::uint8_t>());
    matrix.data = packed.as<std::uint8_t>();
    const std::vector<float> x = random.values(kTokens * kCols);
    std::vector<float> y(kTokens * kRows);
    constexpr int kTerms = kTokens + 2;
    const std::int32_t refined[] = {0, 5};
    const Memory quants(quant_rows_bytes(kTerms, kCols));
    const Memory scratch(static_cast<std::size_t>(linear_scratch_bytes(kCols)));
    const QuantRows quant = quant_rows(quants, kTerms, kCols);
    for (int row = 0; row < kTokens;) {
      const int count = std::min(kTokens - row, kernels.tile_rows - row % kernels.tile_rows);
      kernels.quantise(x.data() + row * kCols, kCols, count, kCols, row, kTerms, quant);
      row += count;
    }
    for (int i = 0; i < 2; ++i) {
      kernels.quantise_rest(x.data() + refined[i] * kCols, kCols, kTokens + i, kTerms, quant);
    }
    kernels.linear({&matrix, nullptr, kTokens, x.data(), kCols, quant, y.data(), kRows, false, 1.0f, refined, 2}, 0,
                   matrix.panels, scratch.as<std::uint8_t>());
    sums += checksum(file.name, y);
    std::vector<float> row(kCols);
    unpack_row(matrix, 20, row.data());
    sums += checksum("  row 20", row);
  }
  return sums;
}

std::string test_rows(const Kernels& kernels) {
  std::string sums;
  Random random;
  constexpr int kSize = 144;
  const std::vector<float> x = random.values(kSize), weight = random.values(kSize), bias = random.values(kSize);
  std::vector<float> y(kSize);
  kernels.norm(x.data(), {weight.data(), bias.data(), 1e-5f, true}, kSize - 5, y.data());
  sums += checksum("layer norm", y);
  kernels.gate(x.data(), weight.data(), kSize, y.data());
  sums += checksum("gate", y);
  kernels.gelu(x.data(), kSize, y.data());
  sums += checksum("gelu", y);
  kernels.rotate(y.data(), x.data(), weight.data(), 30, 72, 0.125f);
  sums += checksum("rotate", y);
  std::vector<std::int32_t> ids(5);
  std::vector<float> top(5);
  double total;
  kernels.top(x.data(), kSize - 5, 5, ids.data(), top.data(), &total);
  top.insert(top.end(), ids.begin(), ids.end());
  top.push_back(static_cast<float>(total));
  sums += checksum("top", top);
  return sums;
}

std::string test_attention(const Kernels& kernels) {
  std::string sums;
  constexpr int kDim = 80, kGroup = 3, kRows = 10, kBlocks = 7, kFirst = 96;
  constexpr std::int64_t kHalf = half_values(kDim), kInt8 = kv_head_bytes(KvFormat::int8, kDim);
  Random random;
  std::vector<std::uint16_t> halves(static_cast<std::size_t>(kBlocks * kHalf));
  for (int place = 0; place < kFirst + kRows; ++place) {
    const std::vector<float> key = random.values(kDim), value = random.values(kDim);
    std::uint16_t* block = halves.data() + place / kSlots * kHalf;
    kernels.store_kv(key.data(), value.data(), kDim, block, block + kSlots * kDim, place % kSlots);
  }
  const Memory int8s(static_cast<std::size_t>(kBlocks * kInt8));
  for (int block = 0; block < kBlocks - 1; ++block) {
    const std::uint16_t* half = halves.data() + block * kHalf;
    kernels.quantise_kv(half, half + kSlots * kDim, kDim, int8s.as<std::uint8_t>() + block * kInt8);
  }
  std::int32_t table[kBlocks];
  for (int block = 0; block < kBlocks; ++block) table[block] = block;
  std::uint16_t* own = halves.data() + (kBlocks - 1) * kHalf;
  const HalfBlock half{own, own + kSlots * kDim, 0, 0};
  const std::vector<float> queries = random.values(kRows * kGroup * kDim);
  const Memory scratch(sizeof(float) * static_cast<std::size_t>(attention_scratch_floats(kGroup, kDim)));
  for (const KvFormat format : {KvFormat::f16, KvFormat::int8}) {
    for (const std::int32_t window : {INT32_MAX, 20}) {
      std::vector<float> output(queries.size());
      std::vector<AttentionRow> rows;
      for (int row = 0; row < kRows; ++row) {
        const int at = row * kGroup * kDim;
        rows.push_back({queries.data() + at, output.data() + at, kFirst + row, {window, 3, 0}});
      }
      const auto* kv = format == KvFormat::f16 ? reinterpret_cast<const std::uint8_t*>(halves.data())
                                               : int8s.as<std::uint8_t>();
      kernels.attend({rows.data(), kRows, kGroup, kDim, INT32_MAX, table, format, kv, kv_head_bytes(format, kDim),
                      {kBlocks - 1, &half, 0, 0}, scratch.as<float>()});
      sums += checksum(format == KvFormat::f16 ? "attention" : "  int8", output);
    }
  }
  return sums;
}

std::string checksums(const Kernels& kernels) {
  return test_linears(kernels) + test_rows(kernels) + test_attention(kernels);
}

}  // namespace

int main() {
  const std::string portable = checksums(portable_kernels());
  std::fputs(portable.c_str(), stdout);
  for (const Isa isa : usable_isas()) {
    const Kernels& kernels = kernels_of(isa);
    const std::string own = checksums(kernels);
    if (own == portable) continue;
    std::fprintf(stderr, "the path %s differs:\n%s", kernels.name, own.c_str());
    return 1;
  }
  return 0;
}
